"""Several substitutes of the store as one, each with its share.

    p = Σ_i a_i · p_i          a_i ≥ 0, Σ a_i = 1

Each part has its own state and its own τ; the mixture as a whole has none. Knows nothing of how the
shares were fitted or of λ."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.base import in_blocks
from knnlm.components.single import Single, width_of

_ROWS = 512


class Mixture(NamedTuple):
    """A mixture of components. Safe for concurrent calls."""

    parts: tuple[Single, ...]
    shares: tuple[float, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every state that a part reads, once."""
        return tuple(dict.fromkeys(key for part in self.parts for key in part.keys))

    @property
    def tau(self) -> float:
        """The parts have theirs."""
        return 1.0

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return self.parts[0].vocab_size

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return sum(part.multiplications for part in self.parts)

    @property
    def width(self) -> int:
        """Of all its states together."""
        return len(self.keys) * (width_of(self.parts[0]) // len(self.parts[0].keys))

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, X)."""
        return self._mixed([part.logprobs(h) for part, h in self._each(states)])

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        return -self._mixed([-part.target_losses(h, targets) for part, h in self._each(states)])

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def _mixed(self, logs: list[torch.Tensor]) -> torch.Tensor:
        weights = torch.tensor(self.shares, dtype=torch.float64, device=logs[0].device).log()
        weighted = torch.stack(
            [values + weight for values, weight in zip(logs, weights, strict=True)]
        )
        return weighted.logsumexp(0).float()

    def _each(self, states: torch.Tensor) -> list[tuple[Single, torch.Tensor]]:
        """Every part with the states that it reads."""
        columns = dict(zip(self.keys, states.chunk(len(self.keys), dim=1), strict=True))
        return [
            (part, torch.cat([columns[key] for key in part.keys], dim=1)) for part in self.parts
        ]
