"""The operations of knnlm with plain arguments: what `import knnlm` offers and what every verb
calls.

texts    texts as arguments name them        stores        train, build, index, tune, evaluate
models   a store as a Hugging Face model     components    what is made of a store in the place of the search

Each function resolves names (paths, texts, models, indexes) and hands over to the room that does
the work."""

from knnlm.api.components import combine, distill, evaluate_component
from knnlm.api.models import Loaded, load
from knnlm.api.stores import build, evaluate, index, train, tune
from knnlm.api.texts import Text, queries, source

__all__ = [
    "Loaded",
    "Text",
    "build",
    "combine",
    "distill",
    "evaluate",
    "evaluate_component",
    "index",
    "load",
    "queries",
    "source",
    "train",
    "tune",
]
