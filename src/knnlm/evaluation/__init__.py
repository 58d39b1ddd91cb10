"""λ: how components are mixed with the LM, tuned on one text and reported on another.

`tune` finds λ and τ of any component on a validation text (tuning.py has the one search for τ,
mixing.py the exact fit of λ). The control is an LM that is corrected without any retrieval
(calibration.py, control.py). `evaluate` gives the perplexities of a test text with a paired
bootstrap interval (metrics.py), and `compare` the change from one predictor to another, with a
verdict (comparison.py). Settings are kept with the datastore (settings.py); explanation.py has the
types that say, token by token, what was retrieved."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
