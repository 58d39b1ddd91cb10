"""A component in a file: its tensors as safetensors, its other fields and what it belongs to in the file's own header.

    FILE.safetensors    tensors by the names of the component's fields; header: kind, fields, about

No code is stored and none is run on loading. Knows nothing of where files are kept or of how components are learned.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from knnlm.components.clusters import Clusters
from knnlm.components.embeddings import Embeddings
from knnlm.components.network import Network
from knnlm.components.softmaxes import Softmaxes
from knnlm.errors import DamagedError, unknown
from knnlm.lm.checkpoint import read_tensors, save_tensors

Component = Embeddings | Softmaxes | Network | Clusters
KINDS: dict[str, type[Component]] = {
    "embeddings": Embeddings, "softmaxes": Softmaxes, "network": Network, "clusters": Clusters
}  # fmt: skip


class Saved(NamedTuple):
    """A component and what was said of it when it was saved."""

    component: Component
    about: dict[str, Any]


def kind_of(component: Component) -> str:
    """Its name in files."""
    return next(name for name, kind in KINDS.items() if isinstance(component, kind))


def save_component(file: Path, component: Component, about: Mapping[str, Any]) -> None:
    """Write it; whole or not at all."""
    fields = component._asdict()
    tensors = {name: value.detach().contiguous() for name, value in fields.items() if isinstance(value, torch.Tensor)}
    plain = {name: value for name, value in fields.items() if name not in tensors}
    save_tensors(file, tensors, {"kind": kind_of(component), "fields": plain, "about": dict(about)})


def load_component(file: Path) -> Saved:
    """Read it again."""
    tensors, header = read_tensors(file)
    if header.get("kind") not in KINDS:
        raise unknown("kind of component", str(header.get("kind")), KINDS)
    kind = KINDS[header["kind"]]
    try:
        fields = {**tensors, **header["fields"]}
        fields["keys"] = tuple(fields["keys"])
        component, about = kind(**fields), header["about"]
        probe = torch.zeros(1, _width(component))
        if component.logprobs(probe).shape != (1, component.vocab_size):
            raise ValueError("shapes")
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        raise DamagedError(f"the parts of {file} do not make a component: make it again") from error
    return Saved(component, about)


def on_device(component: Component, device: torch.device) -> Component:
    """The same with its tensors there."""
    tensors: dict[str, Any] = {n: v.to(device) for n, v in component._asdict().items() if isinstance(v, torch.Tensor)}
    return component._replace(**tensors)


def _width(component: Component) -> int:
    """Of all its states together."""
    if isinstance(component, Network):
        return component.direct.shape[1]
    return (component.centroids if isinstance(component, Clusters) else component[1]).shape[1]
