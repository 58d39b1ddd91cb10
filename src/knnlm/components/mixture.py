"""A mixture of components: one component made of several.

    p = Σ_i a_i · p_i          a_i ≥ 0, Σ a_i = 1

Each part reads its own hidden states and has its own τ; the mixture as a whole has none.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp

from knnlm.components.base import (
    Component,
    Loader,
    Logs,
    Queries,
    QueryArrays,
    SavedState,
    TargetScores,
)
from knnlm.errors import UsageError
from knnlm.stored_fields import Share
from knnlm.typed_json import FieldError, from_json

_ONE = 1e-6  # how near the sum of the weights is to one


class _PartFields(TypedDict):
    kind: str
    fields: dict[str, Any]


class _MixtureFields(TypedDict):
    weights: list[Share]
    parts: list[_PartFields]


@dataclass(frozen=True, eq=False)
class Mixture(Component):
    """Components with their weights.

    Args:
        parts: The components; none of them a mixture.
        weights: How much of the probability each gives, one in sum.
    """

    kind: ClassVar[str] = "mixture"

    parts: tuple[Component, ...]
    weights: tuple[float, ...]
    tau: float = field(default=1.0, init=False)
    keys: tuple[str, ...] = field(init=False)
    """Every hidden state that a part reads, once."""

    def __post_init__(self) -> None:
        keys = dict.fromkeys(key for part in self.parts for key in part.keys)
        object.__setattr__(self, "keys", tuple(keys))

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return self.parts[0].vocab_size

    @property
    def multiplications(self) -> int | None:
        """Multiplications for one token; None where those of a part are not known."""
        each = [part.multiplications for part in self.parts]
        return None if None in each else sum(count for count in each if count is not None)

    def at_temperature(self, tau: float) -> Self:
        """A mixture has no τ of its own."""
        if tau != self.tau:
            raise UsageError("a mixture of components has no temperature: each part has its own")
        return self

    def saved_state(self) -> SavedState:
        """The states of its parts; the number of a part comes before the names of its tensors."""
        states = [part.saved_state() for part in self.parts]
        tensors = {
            f"{number}.{name}": tensor
            for number, state in enumerate(states)
            for name, tensor in state.tensors.items()
        }
        parts = [{"kind": state.kind, "fields": state.fields} for state in states]
        return SavedState(self.kind, tensors, {"weights": list(self.weights), "parts": parts})

    @classmethod
    def from_saved_state(cls, state: SavedState, loader: Loader) -> Self:
        """The mixture of the parts that were saved."""
        fields = from_json(_MixtureFields, state.fields, "fields")
        weights, parts = fields["weights"], list[Component]()
        if len(weights) != len(fields["parts"]) or abs(sum(weights) - 1) > _ONE:
            raise FieldError("fields.weights", "is not a share for each part, one in sum")
        for number, part in enumerate(fields["parts"]):
            if part["kind"] == cls.kind:
                raise FieldError(f"fields.parts[{number}].kind", "is a mixture itself")
            own = {
                name.removeprefix(f"{number}."): tensor
                for name, tensor in state.tensors.items()
                if name.startswith(f"{number}.")
            }
            parts.append(loader.component(SavedState(part["kind"], own, part["fields"])))
        return cls(tuple(parts), tuple(weights))

    def check_parts(self) -> None:
        """Every part fits together, and all predict the same vocabulary."""
        for part in self.parts:
            part.check_parts()
            if part.vocab_size != self.vocab_size:
                raise ValueError(f"vocabularies of {part.vocab_size} and {self.vocab_size}")

    def to(self, device: torch.device) -> Self:
        """The same mixture with its tensors on `device`."""
        return replace(self, parts=tuple(part.to(device) for part in self.parts))

    def prepare(self) -> None:
        """Open what the parts need."""
        for part in self.parts:
            part.prepare()

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, X)."""
        columns = dict(zip(self.keys, states.chunk(len(self.keys), dim=1), strict=True))
        logs = [
            part.logprobs(torch.cat([columns[key] for key in part.keys], dim=1))
            for part in self.parts
        ]
        weights = torch.tensor(self.weights, dtype=torch.float64, device=states.device).log()
        weighted = [values + weight for values, weight in zip(logs, weights, strict=True)]
        return torch.stack(weighted).logsumexp(0).float()

    def target_scores(self, queries: Queries) -> TargetScores:
        """log p of a text's targets, the parts at their own τ."""
        logs = np.stack([part.target_logprobs(self._read_by(part, queries)) for part in self.parts])
        weights = np.asarray(self.weights)[:, None]
        with np.errstate(divide="ignore"):  # a weight of zero
            return _FixedScores(logsumexp(logs + np.log(weights), axis=0))

    def _read_by(self, part: Component, queries: Queries) -> Queries:
        """The text as one part reads it; hidden states in memory are those of all parts."""
        if not isinstance(queries, QueryArrays):
            return queries
        columns = dict(zip(self.keys, np.split(queries.read, len(self.keys), axis=1), strict=True))
        states = np.concatenate([columns[key] for key in part.keys], axis=1)
        return QueryArrays(states, queries.targets)


class _FixedScores(TargetScores):
    """log-probabilities that do not depend on τ."""

    has_temperature = False
    unit = 1.0

    def __init__(self, logs: Logs) -> None:
        self.logs = logs

    def logprobs(self, tau: float) -> Logs:
        return self.logs

    def sample(self, rows: NDArray[np.integer]) -> TargetScores:
        return _FixedScores(self.logs[rows])
