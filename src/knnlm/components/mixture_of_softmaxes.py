"""A mixture of softmaxes over one output embedding: R projections of the hidden state.

    p(v) = Σ_r π_r(h) · softmax(E · (A_r h + a_r) / τ)_v          π(h) = softmax(G h + g)

After Yang et al. (2017) as the paper's code has it: linear projections with a bias and no tanh. Our
`embedding` is E (W_sm or a fine-tuned copy), `projections` A, `gate` G. In log space throughout.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from knnlm.components.head import softmax_losses
from knnlm.components.learned import LearnedComponent


@dataclass(frozen=True, eq=False)
class MixtureOfSoftmaxes(LearnedComponent):
    """A mixture of softmaxes."""

    kind: ClassVar[str] = "mixture-of-softmaxes"
    block: ClassVar[int] = 1024

    keys: tuple[str, ...]
    embedding: torch.Tensor
    """(V, D)"""
    projections: torch.Tensor
    """(R, D, D)"""
    projection_bias: torch.Tensor
    """(R, D)"""
    gate: torch.Tensor
    """(R, D)"""
    gate_bias: torch.Tensor
    """(R,)"""
    tau: float = 1.0

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return len(self.embedding)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        scores = len(self.projections) * self.embedding.numel()
        return scores + self.projections.numel() + self.gate.numel()

    @property
    def width(self) -> int:
        """Width of the hidden state."""
        return self.embedding.shape[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have to fit the others."""
        (v, d), r = self.embedding.shape, len(self.projections)
        return {
            "embedding": (v, d),
            "projections": (r, d, d),
            "projection_bias": (r, d),
            "gate": (r, d),
            "gate_bias": (r,),
        }

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, D)."""
        h = states.float()
        parts = [
            log_share[:, None] + scores.log_softmax(1)
            for log_share, scores in zip(self._log_shares(h), self._scores(h), strict=True)
        ]
        return torch.stack(parts).logsumexp(0)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,), differentiable."""
        logs = [-softmax_losses(scores, targets) for scores in self._scores(states)]
        return -(self._log_shares(states) + torch.stack(logs)).logsumexp(0)

    def _log_shares(self, states: torch.Tensor) -> torch.Tensor:
        """log π (R, B)."""
        return (states @ self.gate.T + self.gate_bias).log_softmax(1).T

    def _scores(self, states: torch.Tensor) -> list[torch.Tensor]:
        """Scores (B, V) of each softmax."""
        return [
            (states @ projection.T + bias) / self.tau @ self.embedding.T
            for projection, bias in zip(self.projections, self.projection_bias, strict=True)
        ]
