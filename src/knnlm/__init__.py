"""knnlm: nearest-neighbour language models from any causal LM and any text.

    P = (1-λ) · softmax(W_sm · h_sm)  +  λ · M · softmax( mask-to-k(W_ds ⊗ h_ds) / τ )

The surface is small: `train`, `build`, `index`, `tune`, `evaluate`, `distill`, `combine`, `load`,
`demo`, `open_entries`, and the errors. Names are loaded when first used, so importing knnlm costs
nothing."""

import importlib
from typing import TYPE_CHECKING, Any

from knnlm.errors import KnnlmError as KnnlmError
from knnlm.errors import UsageError as UsageError
from knnlm.version import __version__ as __version__

if TYPE_CHECKING:
    from knnlm.api import build as build
    from knnlm.api import combine as combine
    from knnlm.api import distill as distill
    from knnlm.api import evaluate as evaluate
    from knnlm.api import evaluate_component as evaluate_component
    from knnlm.api import index as index
    from knnlm.api import load as load
    from knnlm.api import source as source
    from knnlm.api import train as train
    from knnlm.api import tune as tune
    from knnlm.datastore.entries import open_entries as open_entries
    from knnlm.experiments.demo import demo as demo
    from knnlm.models.load import load_model as load_model

_HOME = {
    "build": "knnlm.api",
    "combine": "knnlm.api",
    "distill": "knnlm.api",
    "evaluate": "knnlm.api",
    "evaluate_component": "knnlm.api",
    "index": "knnlm.api",
    "load": "knnlm.api",
    "source": "knnlm.api",
    "train": "knnlm.api",
    "tune": "knnlm.api",
    "demo": "knnlm.experiments.demo",
    "load_model": "knnlm.models.load",
    "open_entries": "knnlm.datastore.entries",
}

__all__ = ["KnnlmError", "UsageError", "__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'knnlm' has no attribute '{name}'")
