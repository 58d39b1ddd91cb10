"""λ: how components are mixed with the LM, tuned on one text and reported on another.

`tune` finds λ and τ of any component on a validation text (tuning.py has the one search for τ,
mixing.py the exact fit of λ), and calibration.py the control, an LM that is corrected without any
retrieval; `evaluate` gives the perplexities of a test text with a paired
bootstrap interval (metrics.py); settings are kept with the datastore (settings.py); explanation.py
has the types that say, token by token, what was retrieved."""

from knnlm.evaluation.calibration import Calibration as Calibration
from knnlm.evaluation.calibration import TemperedLM as TemperedLM
from knnlm.evaluation.calibration import calibrate as calibrate
from knnlm.evaluation.calibration import calibrated_logprobs as calibrated_logprobs
from knnlm.evaluation.calibration import unigram_logprobs as unigram_logprobs
from knnlm.evaluation.control import TEMPERED_KIND as TEMPERED_KIND
from knnlm.evaluation.control import Control as Control
from knnlm.evaluation.control import control_logprobs as control_logprobs
from knnlm.evaluation.control import fit_control as fit_control
from knnlm.evaluation.evaluate import Evaluation as Evaluation
from knnlm.evaluation.evaluate import evaluate as evaluate
from knnlm.evaluation.explanation import ExplainedToken as ExplainedToken
from knnlm.evaluation.explanation import Passage as Passage
from knnlm.evaluation.explanation import RetrievedNeighbor as RetrievedNeighbor
from knnlm.evaluation.metrics import helping as helping
from knnlm.evaluation.metrics import perplexity as perplexity
from knnlm.evaluation.metrics import ratio_interval as ratio_interval
from knnlm.evaluation.mixing import check_lambda as check_lambda
from knnlm.evaluation.mixing import fit_lambda as fit_lambda
from knnlm.evaluation.mixing import fit_weights as fit_weights
from knnlm.evaluation.mixing import mix as mix
from knnlm.evaluation.mixing import mix_several as mix_several
from knnlm.evaluation.mixing import mix_vocabulary as mix_vocabulary
from knnlm.evaluation.mixing import oracle as oracle
from knnlm.evaluation.overlap import LARGE_SHARE as LARGE_SHARE
from knnlm.evaluation.overlap import Overlap as Overlap
from knnlm.evaluation.overlap import find_overlap as find_overlap
from knnlm.evaluation.overlap import normalized_tokens as normalized_tokens
from knnlm.evaluation.settings import CalibratedSettings as CalibratedSettings
from knnlm.evaluation.settings import TunedSettings as TunedSettings
from knnlm.evaluation.settings import choose_settings as choose_settings
from knnlm.evaluation.settings import forget_settings as forget_settings
from knnlm.evaluation.settings import load_settings as load_settings
from knnlm.evaluation.settings import save_settings as save_settings
from knnlm.evaluation.tuning import FEW_TOKENS as FEW_TOKENS
from knnlm.evaluation.tuning import TemperaturePoint as TemperaturePoint
from knnlm.evaluation.tuning import TunedComponent as TunedComponent
from knnlm.evaluation.tuning import best_temperature as best_temperature
from knnlm.evaluation.tuning import check_enough as check_enough
from knnlm.evaluation.tuning import temperature_sweep as temperature_sweep
from knnlm.evaluation.tuning import tune as tune
from knnlm.evaluation.tuning import tune_best as tune_best
