"""A small network over several states at once, with an output embedding of its own.

    p = softmax(E · f(x) / τ)        x = the states, one after the other        f(x) = A x + B · gelu(H · norm(x) + b)

`norm` is a LayerNorm without gain or bias of each state by itself. With A selecting ffn, B = 0 and
E = W_sm it is the LM itself, which is where learning begins. Knows nothing of how it is learned or
of λ."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import gelu, layer_norm

from knnlm.components.base import in_blocks
from knnlm.components.head import target_losses

_ROWS = 2048


class MLP(NamedTuple):
    """A learned substitute of the store. Safe for concurrent calls."""

    keys: tuple[str, ...]
    embedding: torch.Tensor
    """E (V, D)"""
    direct: torch.Tensor
    """A (D, X), X the width of all states together"""
    inner: torch.Tensor
    """H (U, X)"""
    inner_bias: torch.Tensor
    """b (U,)"""
    outer: torch.Tensor
    """B (D, U)"""
    tau: float = 1.0

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return len(self.embedding)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return sum(
            matrix.numel() for matrix in (self.embedding, self.direct, self.inner, self.outer)
        )

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, X)."""
        return self._scores(states.float()).log_softmax(1)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        return target_losses(self._scores(states), targets)

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        parts = states.unflatten(1, (len(self.keys), -1))
        normed = layer_norm(parts, parts.shape[2:]).flatten(1)
        inside = gelu(normed @ self.inner.T + self.inner_bias)
        return (states @ self.direct.T + inside @ self.outer.T) / self.tau @ self.embedding.T
