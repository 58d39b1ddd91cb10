"""knnlm: nearest-neighbor language models from any causal LM and any text.

    P = (1-λ) · softmax(W_sm · h_sm)  +  λ · M · softmax( mask-to-k(W_ds ⊗ h_ds) / τ )

Two objects: a `Datastore` holds the hidden states of a text and the tokens that followed them; a
`KNNLM` mixes a language model with what its datastore retrieves.

    store = Datastore.build("HuggingFaceTB/SmolLM2-135M", text="docs/", path="store")
    store.build_index()
    model = KNNLM(store).tune("valid.txt")
    print(model.evaluate("test.txt"))
    print(model.generate("The with statement").text)

A text is a path or several, `Folder(PATH)`, `HubDataset(NAME)` or `PythonDocs()`. Names are loaded
when they are first used, so importing knnlm costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from knnlm.errors import DamagedError as DamagedError
from knnlm.errors import KnnlmError as KnnlmError
from knnlm.errors import UsageError as UsageError
from knnlm.version import __version__ as __version__

if TYPE_CHECKING:
    from knnlm.api import KNNLM as KNNLM
    from knnlm.api import Datastore as Datastore
    from knnlm.api import DatastoreInfo as DatastoreInfo
    from knnlm.api import EvaluationResult as EvaluationResult
    from knnlm.api import Explanation as Explanation
    from knnlm.api import Generation as Generation
    from knnlm.api import VerifyResult as VerifyResult
    from knnlm.api import train as train
    from knnlm.components import Component as Component
    from knnlm.datastore import Entries as Entries
    from knnlm.evaluation import ExplainedToken as ExplainedToken
    from knnlm.evaluation import RetrievedNeighbor as RetrievedNeighbor
    from knnlm.evaluation import TunedSettings as TunedSettings
    from knnlm.experiments.demo import run_demo as run_demo
    from knnlm.huggingface import KNNLMForCausalLM as KNNLMForCausalLM
    from knnlm.huggingface import Sampling as Sampling
    from knnlm.models import LanguageModel as LanguageModel
    from knnlm.models import Preset as Preset
    from knnlm.models import load_model as load_model
    from knnlm.search import Index as Index
    from knnlm.search import Neighbors as Neighbors
    from knnlm.search import Retrieval as Retrieval
    from knnlm.text import Document as Document
    from knnlm.text import Folder as Folder
    from knnlm.text import HubDataset as HubDataset
    from knnlm.text import PythonDocs as PythonDocs
    from knnlm.text import Source as Source
    from knnlm.training.distillation import Distilled as Distilled
    from knnlm.training.language_model import TrainingResult as TrainingResult

_MODULES = {
    "knnlm.api": (
        "Datastore",
        "DatastoreInfo",
        "EvaluationResult",
        "Explanation",
        "Generation",
        "KNNLM",
        "VerifyResult",
        "train",
    ),
    "knnlm.components": ("Component",),
    "knnlm.datastore": ("Entries",),
    "knnlm.evaluation": ("ExplainedToken", "RetrievedNeighbor", "TunedSettings"),
    "knnlm.experiments.demo": ("run_demo",),
    "knnlm.huggingface": ("KNNLMForCausalLM", "Sampling"),
    "knnlm.models": ("LanguageModel", "Preset", "load_model"),
    "knnlm.search": ("Index", "Neighbors", "Retrieval"),
    "knnlm.text": ("Document", "Folder", "HubDataset", "PythonDocs", "Source"),
    "knnlm.training.distillation": ("Distilled",),
    "knnlm.training.language_model": ("TrainingResult",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["DamagedError", "KnnlmError", "UsageError", "__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'knnlm' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
