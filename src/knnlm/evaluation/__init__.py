"""λ: how components are mixed with the LM, tuned on one text and reported on another.

`tune` finds λ and τ of any component on a validation text (tuning.py has the one search for τ,
mixing.py the exact fit of λ); `evaluate` gives the perplexities of a test text with a paired
bootstrap interval (metrics.py); settings are kept with the datastore (settings.py); explanation.py
has the types that say, token by token, what was retrieved."""

from knnlm.evaluation.evaluate import Evaluation as Evaluation
from knnlm.evaluation.evaluate import evaluate as evaluate
from knnlm.evaluation.explanation import ExplainedToken as ExplainedToken
from knnlm.evaluation.explanation import Passage as Passage
from knnlm.evaluation.explanation import RetrievedNeighbor as RetrievedNeighbor
from knnlm.evaluation.mixing import check_lambda as check_lambda
from knnlm.evaluation.mixing import fit_lambda as fit_lambda
from knnlm.evaluation.mixing import fit_weights as fit_weights
from knnlm.evaluation.mixing import mix as mix
from knnlm.evaluation.mixing import mix_several as mix_several
from knnlm.evaluation.settings import TunedSettings as TunedSettings
from knnlm.evaluation.settings import choose_settings as choose_settings
from knnlm.evaluation.settings import load_settings as load_settings
from knnlm.evaluation.settings import save_settings as save_settings
from knnlm.evaluation.tuning import TunedComponent as TunedComponent
from knnlm.evaluation.tuning import best_temperature as best_temperature
from knnlm.evaluation.tuning import temperature_sweep as temperature_sweep
from knnlm.evaluation.tuning import tune as tune
from knnlm.evaluation.tuning import tune_best as tune_best
