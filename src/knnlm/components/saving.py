"""A component in a file: its tensors as safetensors, its other fields and what it belongs to in the
file's own header.

    FILE.safetensors    tensors by the names of the component's fields; header: kind, fields, about
                        of several together, by the place of each and the name: 0.centroids, 1.weight

No code is stored and none is run on loading. Knows nothing of where files are kept or of how
components are learned."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from knnlm.components.clusters import Clusters
from knnlm.components.head import Head
from knnlm.components.mixture import Mixture
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP
from knnlm.components.single import Single, width_of
from knnlm.errors import DamagedError, unknown
from knnlm.tensors import read_tensors, save_tensors

Component = Single | Mixture
KINDS: dict[str, type[Component]] = {
    "embeddings": Head,
    "softmaxes": MixtureOfSoftmaxes,
    "network": MLP,
    "clusters": Clusters,
    "together": Mixture,
}


class Saved(NamedTuple):
    """A component and what was said of it when it was saved."""

    component: Component
    about: dict[str, Any]


def kind_of(component: Component) -> str:
    """Its name in files."""
    return next(name for name, kind in KINDS.items() if isinstance(component, kind))


def save_component(file: Path, component: Component, about: Mapping[str, Any]) -> None:
    """Write it; whole or not at all."""
    header: dict[str, Any] = {"kind": kind_of(component), "about": dict(about)}
    if isinstance(component, Mixture):
        found = [_apart(part) for part in component.parts]
        tensors = {
            f"{place}.{name}": value
            for place, (held, _) in enumerate(found)
            for name, value in held.items()
        }
        parts = [
            {"kind": kind_of(p), "fields": plain}
            for p, (_, plain) in zip(component.parts, found, strict=True)
        ]
        header["fields"] = {"shares": list(component.shares), "parts": parts}
    else:
        tensors, header["fields"] = _apart(component)
    save_tensors(file, tensors, header)


def load_component(file: Path) -> Saved:
    """Read it again."""
    tensors, header = read_tensors(file)
    if header.get("kind") not in KINDS:
        raise unknown("kind of component", str(header.get("kind")), KINDS)
    try:
        component = _made(header["kind"], tensors, header["fields"])
        about = header["about"]
        width = component.width if isinstance(component, Mixture) else width_of(component)
        if component.logprobs(torch.zeros(1, width)).shape != (1, component.vocab_size):
            raise ValueError("shapes")
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        raise DamagedError(f"the parts of {file} do not make a component: make it again") from error
    return Saved(component, about)


def on_device(component: Component, device: torch.device) -> Component:
    """The same with its tensors there."""
    if isinstance(component, Mixture):
        return component._replace(parts=tuple(on_device(part, device) for part in component.parts))  # type: ignore[misc]
    tensors: dict[str, Any] = {
        n: v.to(device) for n, v in component._asdict().items() if isinstance(v, torch.Tensor)
    }
    return component._replace(**tensors)


def _apart(component: Single) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Its tensors, and its other fields."""
    fields = component._asdict()
    tensors = {
        name: value.detach().contiguous()
        for name, value in fields.items()
        if isinstance(value, torch.Tensor)
    }
    return tensors, {name: value for name, value in fields.items() if name not in tensors}


def _made(kind: str, tensors: Mapping[str, torch.Tensor], fields: Mapping[str, Any]) -> Any:
    """A component from what was apart."""
    if KINDS[kind] is not Mixture:
        return KINDS[kind](**{**tensors, **fields, "keys": tuple(fields["keys"])})
    parts = []
    for place, part in enumerate(fields["parts"]):
        mine = {
            name.removeprefix(f"{place}."): t
            for name, t in tensors.items()
            if name.startswith(f"{place}.")
        }
        parts.append(_made(part["kind"], mine, part["fields"]))
    return Mixture(tuple(parts), tuple(fields["shares"]))
