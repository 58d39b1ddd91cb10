"""A mixture of softmaxes over one output embedding: R views of the state, each with its own
distribution.

    p(w) = Σ_r π_r(h) · softmax(E · (A_r h + a_r) / τ)_w          π(h) = softmax(G h + g)

After Yang et al. (2017) as the paper's code has it: linear views with a bias and no tanh. Our
`embedding` is E (W_sm or a fine-tuned copy), `views` A, `gate` G. In log space throughout. Knows
nothing of how they are learned or of λ."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.base import in_blocks
from knnlm.components.head import target_losses

_ROWS = 1024


class MixtureOfSoftmaxes(NamedTuple):
    """A learned substitute of the store. Safe for concurrent calls."""

    keys: tuple[str, ...]
    embedding: torch.Tensor
    """(V, D)"""
    views: torch.Tensor
    """(R, D, D)"""
    view_bias: torch.Tensor
    """(R, D)"""
    gate: torch.Tensor
    """(R, D)"""
    gate_bias: torch.Tensor
    """(R,)"""
    tau: float = 1.0

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return len(self.embedding)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return len(self.views) * self.embedding.numel() + self.views.numel() + self.gate.numel()

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, D)."""
        h = states.float()
        shares = self._shares(h)
        parts = [
            share[:, None] + scores.log_softmax(1)
            for share, scores in zip(shares, self._scores(h), strict=True)
        ]
        return torch.stack(parts).logsumexp(0)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        own = [-target_losses(scores, targets) for scores in self._scores(states)]
        return -(self._shares(states) + torch.stack(own)).logsumexp(0)

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def _shares(self, states: torch.Tensor) -> torch.Tensor:
        """log π (R, B)."""
        return (states @ self.gate.T + self.gate_bias).log_softmax(1).T

    def _scores(self, states: torch.Tensor) -> list[torch.Tensor]:
        """Scores (B, V) of each view."""
        return [
            (states @ view.T + bias) / self.tau @ self.embedding.T
            for view, bias in zip(self.views, self.view_bias, strict=True)
        ]
