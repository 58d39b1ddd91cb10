"""An MLP over several hidden states at once, with an output embedding of its own.

    p = softmax(E · f(x) / τ)        x = the hidden states, one after the other
    f(x) = A x + B · gelu(H · norm(x) + b)

`norm` is a LayerNorm without gain or bias of each hidden state by itself. With A selecting ffn, B =
0 and E = W_sm it is the LM itself, which is where training starts."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn.functional import gelu, layer_norm

from knnlm.components.head import softmax_losses
from knnlm.components.learned import LearnedComponent


@dataclass(frozen=True, eq=False)
class MLP(LearnedComponent):
    """A small MLP over att and ffn."""

    kind: ClassVar[str] = "mlp"

    keys: tuple[str, ...]
    embedding: torch.Tensor
    """E (V, D)"""
    direct: torch.Tensor
    """A (D, X), X the width of all hidden states together"""
    inner: torch.Tensor
    """H (U, X)"""
    inner_bias: torch.Tensor
    """b (U,)"""
    outer: torch.Tensor
    """B (D, U)"""
    tau: float = 1.0

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return len(self.embedding)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        matrices = (self.embedding, self.direct, self.inner, self.outer)
        return sum(matrix.numel() for matrix in matrices)

    @property
    def width(self) -> int:
        """Width of all hidden states together."""
        return self.direct.shape[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have to fit the others."""
        (v, d), u, x = self.embedding.shape, len(self.inner), self.width
        return {
            "embedding": (v, d),
            "direct": (d, x),
            "inner": (u, x),
            "inner_bias": (u,),
            "outer": (d, u),
        }

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, X)."""
        return self._scores(states.float()).log_softmax(1)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,), differentiable."""
        return softmax_losses(self._scores(states), targets)

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        parts = states.unflatten(1, (len(self.keys), -1))
        normed = layer_norm(parts, parts.shape[2:]).flatten(1)
        inside = gelu(normed @ self.inner.T + self.inner_bias)
        return (states @ self.direct.T + inside @ self.outer.T) / self.tau @ self.embedding.T
