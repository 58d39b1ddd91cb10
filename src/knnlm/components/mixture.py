"""A mixture of components: one component made of several.

    p = Σ_i a_i · p_i          a_i ≥ 0, Σ a_i = 1

Each part reads its own hidden states and has its own τ; the mixture as a whole has none.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from scipy.special import logsumexp

from knnlm.components.base import Component, Logs, Queries, TargetScores
from knnlm.errors import UsageError


@dataclass(frozen=True, eq=False)
class Mixture(Component):
    """Components with their weights.

    Args:
        parts: The components; none of them a mixture.
        weights: How much of the probability each gives, one in sum.
    """

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
        logs = np.stack([part.target_logprobs(queries) for part in self.parts])
        weights = np.asarray(self.weights)[:, None]
        with np.errstate(divide="ignore"):  # a weight of zero
            return _FixedScores(logsumexp(logs + np.log(weights), axis=0))


class _FixedScores(TargetScores):
    """log-probabilities that do not depend on τ."""

    has_temperature = False
    unit = 1.0

    def __init__(self, logs: Logs) -> None:
        self.logs = logs

    def logprobs(self, tau: float) -> Logs:
        return self.logs
