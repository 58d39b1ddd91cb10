"""What every component in the place of the store offers: log p from states, whatever it computes
inside.

Rows of states are (B, X), those of several keys one after the other in the order of `keys`. Knows
nothing of λ."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class Predictor(Protocol):
    """A substitute of the store. Safe for concurrent calls."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The states it reads."""
        ...

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        ...

    @property
    def tau(self) -> float:
        """τ of its softmax."""
        ...

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        ...

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, X) that are where its tensors are."""
        ...

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        ...

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time so that the scores stay small."""
        ...


def in_blocks(
    losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    states: NDArray[Any],
    targets: NDArray[np.integer],
    rows: int,
) -> NDArray[np.float64]:
    """log p of one target for each state from a function of tensors, `rows` at a time."""
    found = np.empty(len(targets), np.float64)
    with torch.inference_mode():
        for start in range(0, len(targets), rows):
            block = slice(start, start + rows)
            h = torch.from_numpy(np.asarray(states[block], np.float32))
            wanted = torch.from_numpy(np.asarray(targets[block], np.int64))
            found[block] = -losses(h, wanted).double().numpy()
    return found
