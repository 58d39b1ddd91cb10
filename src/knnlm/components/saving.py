"""A component as tensors and JSON: what of it is written to disk, and how it is made again.

    FILE.safetensors    tensors by the names of the component's fields; header: kind, fields, about
                        parts of a mixture have their number before the name: 0.centroids, 1.weight

A component that retrieves is written as its settings alone: its entries stay in the datastore. No
code is stored and none is run on loading.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from knnlm.components.base import Component, LearnedComponent
from knnlm.components.clusters import Clusters
from knnlm.components.full_datastore import FullDatastore
from knnlm.components.head import Head
from knnlm.components.knn import KNN
from knnlm.components.mixture import Mixture
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP
from knnlm.datastore import Entries
from knnlm.errors import DamagedError, KnnlmError, unknown
from knnlm.search import Retrieval
from knnlm.similarity import checked_metric
from knnlm.tensors import read_tensors, save_tensors

LEARNED: dict[str, type[LearnedComponent]] = {
    kind.kind: kind for kind in (Clusters, Head, MixtureOfSoftmaxes, MLP)
}


class SavedState(NamedTuple):
    """A component taken apart: its kind, its tensors, and its other fields as JSON."""

    kind: str
    tensors: dict[str, torch.Tensor]
    fields: dict[str, Any]


class Saved(NamedTuple):
    """A component and the note that was written with it."""

    component: Component
    about: dict[str, Any]


def take_apart(component: Component) -> SavedState:
    """What of a component is written to disk."""
    if isinstance(component, LearnedComponent):
        return SavedState(component.kind, component.tensors(), component.plain_fields())
    if isinstance(component, KNN):
        fields = {**component.retrieval.as_json(), "tau": component.tau}
        return SavedState("knn", {}, fields)
    if isinstance(component, FullDatastore):
        fields = {"key": component.key, "metric": component.metric, "tau": component.tau}
        return SavedState("full-datastore", {}, fields)
    if isinstance(component, Mixture):
        states = [take_apart(part) for part in component.parts]
        tensors = {
            f"{number}.{name}": tensor
            for number, state in enumerate(states)
            for name, tensor in state.tensors.items()
        }
        parts = [{"kind": state.kind, "fields": state.fields} for state in states]
        return SavedState("mixture", tensors, {"weights": list(component.weights), "parts": parts})
    raise TypeError(f"a {type(component).__name__} cannot be saved")


def put_together(state: SavedState, entries: Entries | None = None) -> Component:
    """The component that `take_apart` took apart.

    Args:
        state: Its kind, tensors and fields.
        entries: The datastore, for components that retrieve from one.

    Raises:
        UsageError: If the kind is unknown.
    """
    kind, tensors, fields = state
    if kind in LEARNED:
        return LEARNED[kind].from_fields(tensors, fields)
    if kind == "mixture":
        parts = [
            put_together(SavedState(part["kind"], _part(tensors, number), part["fields"]), entries)
            for number, part in enumerate(fields["parts"])
        ]
        return Mixture(tuple(parts), tuple(fields["weights"]))
    if kind not in ("knn", "full-datastore"):
        raise unknown("kind of component", kind, [*LEARNED, "knn", "full-datastore", "mixture"])
    if entries is None:
        raise KnnlmError(f"a {kind} component needs its datastore: open it through the datastore")
    if kind == "knn":
        return KNN(entries, Retrieval.from_json(fields), float(fields["tau"]))
    metric = checked_metric(fields["metric"])
    return FullDatastore(entries, fields["key"], metric, float(fields["tau"]))


def save_component(file: Path, component: Component, about: Mapping[str, Any]) -> None:
    """Write a component to a file, whole or not at all."""
    kind, tensors, fields = take_apart(component)
    save_tensors(file, tensors, {"kind": kind, "about": dict(about), "fields": fields})


def load_component(file: Path, entries: Entries | None = None) -> Saved:
    """Read a component from a file.

    Raises:
        DamagedError: If its tensors and fields do not make a component.
        UsageError: If its kind is unknown.
    """
    tensors, header = read_tensors(file)
    try:
        state = SavedState(str(header["kind"]), tensors, header["fields"])
        component = put_together(state, entries)
        _check_shapes(component)
        return Saved(component, header["about"])
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        raise DamagedError(f"the parts of {file} do not make a component: make it again") from error


def _part(tensors: Mapping[str, torch.Tensor], number: int) -> dict[str, torch.Tensor]:
    prefix = f"{number}."
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _check_shapes(component: Component) -> None:
    """Predict once: tensors that do not fit together raise here, not in the middle of a text."""
    for part in component.parts if isinstance(component, Mixture) else (component,):
        if isinstance(part, LearnedComponent):
            if isinstance(part, Head) and int(part.counts.min()) < 1:
                raise ValueError("a vocabulary entry without an embedding")
            shape = part.logprobs(torch.zeros(1, part.width)).shape
            if shape != (1, component.vocab_size):
                raise ValueError(f"logits of shape {tuple(shape)}")
