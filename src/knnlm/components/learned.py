"""Components that are a few tensors: what is trained from entries, saved and moved to a device."""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.base import Component, Loader, Logs, Queries, SavedState, TargetScores
from knnlm.ranges import check_temperature
from knnlm.stored_fields import Keys, MetricName, Temperature
from knnlm.typed_json import FieldError, from_json


class LearnedFields(TypedDict):
    """What is saved of a component beside its tensors."""

    keys: Keys
    tau: Temperature


class MetricFields(LearnedFields):
    """The same of one that compares hidden states with its rows."""

    metric: MetricName


@dataclass(frozen=True, eq=False)
class LearnedComponent(Component):
    """A component that is a few tensors: its fields are what is saved, and what training
    changes."""

    block: ClassVar[int] = 2048
    """Queries that are scored at once, so that the scores stay small."""
    saved_fields: ClassVar[Any] = LearnedFields
    """What is saved of it beside its tensors."""
    whole_numbers: ClassVar[tuple[str, ...]] = ()
    """Its tensors of whole numbers; all others hold fractions."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width X of all the hidden states that it reads together."""

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have to fit the others."""

    @abstractmethod
    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,), differentiable."""

    def target_scores(self, queries: Queries) -> TargetScores:
        """log p of the targets of a text, at any τ."""
        return _LearnedScores(self, queries.states(self.keys), queries.targets)

    def at_temperature(self, tau: float) -> Self:
        """The same component at another τ."""
        check_temperature(tau)
        changed: dict[str, Any] = {"tau": tau}
        return dataclasses.replace(self, **changed)

    def to(self, device: torch.device) -> Self:
        """The same component with its tensors on `device`."""
        return dataclasses.replace(
            self, **{name: tensor.to(device) for name, tensor in self.tensors().items()}
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its tensors by field name."""
        return {n: v for n, v in self._fields().items() if isinstance(v, torch.Tensor)}

    def saved_state(self) -> SavedState:
        """All its fields."""
        plain = {n: v for n, v in self._fields().items() if not isinstance(v, torch.Tensor)}
        return SavedState(self.kind, self.tensors(), plain)

    @classmethod
    def from_saved_state(cls, state: SavedState, loader: Loader) -> Self:
        """The component that has these fields, and no others."""
        fields = from_json(cls.saved_fields, state.fields, "fields")
        names = [each.name for each in dataclasses.fields(cls)]
        for name in {*fields, *state.tensors}.symmetric_difference(names):
            raise FieldError(name, "is missing" if name in names else "is not known")
        return cls(**{**state.tensors, **fields, "keys": tuple(fields["keys"])})

    def check_parts(self) -> None:
        """Compare tensors with their shapes, and predict once: what does not fit together raises
        here, not in the middle of a text."""
        shapes = self.shapes
        for name, tensor in self.tensors().items():
            if tensor.shape != shapes[name] or not tensor.numel():
                raise FieldError(name, f"has shape {tuple(tensor.shape)}, not {shapes[name]}")
            if tensor.is_floating_point() == (name in self.whole_numbers):
                raise FieldError(name, f"holds numbers of type {tensor.dtype}")
            if not bool(torch.isfinite(tensor).all()):
                raise FieldError(name, "is not finite")
        shape = self.logprobs(torch.zeros(1, self.width)).shape
        if shape != (1, self.vocab_size):
            raise ValueError(f"logits of shape {tuple(shape)}")

    def _fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


class _LearnedScores(TargetScores):
    """A learned component's log p, computed again at every τ."""

    precision = 1.005  # at 1.02 an MLP was 1.5e-5 above its best perplexity
    first_look = 2048

    def __init__(
        self, component: LearnedComponent, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> None:
        self.component, self.states, self.targets = component, states, targets

    @property
    def unit(self) -> float:
        return self.component.tau

    def logprobs(self, tau: float) -> Logs:
        component = self.component.at_temperature(tau)
        logs = np.empty(len(self.targets), np.float64)
        with torch.inference_mode():
            for start in range(0, len(logs), component.block):
                block = slice(start, start + component.block)
                states = torch.from_numpy(np.asarray(self.states[block], np.float32))
                targets = torch.from_numpy(np.asarray(self.targets[block], np.int64))
                logs[block] = -component.target_losses(states, targets).double().numpy()
        return logs

    def sample(self, rows: NDArray[np.integer]) -> TargetScores:
        return _LearnedScores(self.component, self.states[rows], self.targets[rows])
