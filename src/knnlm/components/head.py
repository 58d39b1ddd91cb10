"""Ŵ_ds: a small matrix in the place of the store, with a few rows for each word; every row votes.

    p(w) = Σ_{r of w} softmax(Ŵ ⊗ h / τ)_r          that is M · softmax(Ŵ ⊗ h / τ), no mask

The paper's nV × D embeddings, in log space throughout (no clamped probabilities). Rows are sorted
by word, and every word has at least one. Our `weight` is Ŵ_ds, `counts` the rows of each word (the
row sums of M). Knows nothing of how the rows were found or of λ."""

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

from knnlm.components.base import in_blocks
from knnlm.components.knn import check_tau
from knnlm.errors import KnnlmError
from knnlm.similarity import Metric

_ROWS = 2048


class Head(NamedTuple):
    """A learned substitute of the store. Safe for concurrent calls."""

    keys: tuple[str, ...]
    weight: torch.Tensor
    """(R, D), fp32."""
    counts: torch.Tensor
    """(V,) int64, each at least 1, R in all."""
    metric: Metric
    tau: float

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return len(self.counts)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return self.weight.numel()

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, D)."""
        scores = row_scores(self.weight, states.float(), self.metric, self.tau)
        return by_word(scores, self.counts) - scores.logsumexp(1, keepdim=True)

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time so that the scores stay small."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        return target_losses(
            row_scores(self.weight, states, self.metric, self.tau), targets, self.counts
        )


def new_head(
    key: str, weight: torch.Tensor, counts: torch.Tensor, metric: Metric, tau: float = 1.0
) -> Head:
    """Head after checking that rows and words fit together."""
    check_tau(tau)
    if weight.ndim != 2 or int(counts.sum()) != len(weight) or int(counts.min()) < 1:
        raise KnnlmError(
            f"{len(weight)} rows do not belong to {len(counts)} words of one row or more each"
        )
    return Head((key,), weight, counts, metric, tau)


def row_scores(
    weight: torch.Tensor,
    states: torch.Tensor,
    metric: Metric,
    tau: float,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """(Ŵ ⊗ h + b) / τ (B, R). Under L2 without ‖h‖², which is the same for every row and so leaves
    the softmax as it is. τ is taken into the smaller arrays: (B, R) is written once."""
    if metric == "l2":
        bias = -weight.square().sum(1) if bias is None else bias - weight.square().sum(1)
        states = 2 * states
    if tau != 1:
        states = states / tau
    return states @ weight.T if bias is None else torch.addmm(bias / tau, states, weight.T)


def target_losses(
    scores: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor | None = None
) -> torch.Tensor:
    """-log p(target) (B,) from row scores (B, R): log Σ over all rows less log Σ over the target's.
    Without `counts` every word has one row."""
    if counts is None or len(counts) == scores.shape[1]:
        ids, missing = targets[:, None], None
    else:
        places = torch.arange(int(counts.max()), device=scores.device)
        missing = places >= counts[targets, None]
        ids = ((counts.cumsum(0) - counts)[targets, None] + places).masked_fill(missing, 0)
    return cast(torch.Tensor, _Losses.apply(scores, ids, missing))


class _Losses(torch.autograd.Function):
    """The loss and its gradient, softmax less the target's share of it, in one array: memory is
    slower than arithmetic here, and autograd would pass over several of them."""

    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, ids: torch.Tensor, missing: torch.Tensor | None
    ) -> torch.Tensor:
        total, own = scores.logsumexp(1), scores.gather(1, ids)
        if missing is not None:
            own = own.masked_fill(missing, -torch.inf)
        mine = own.logsumexp(1)
        ctx.save_for_backward(scores, total, own, mine, ids)
        return total - mine

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        scores, total, own, mine, ids = ctx.saved_tensors
        grad = (scores - total[:, None]).exp_().mul_(slope[:, None])
        return grad.scatter_add_(1, ids, (own - mine[:, None]).exp() * -slope[:, None]), None, None


def by_word(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """log Σ exp over the rows of each word: (B, R) → (B, V)."""
    if len(counts) == scores.shape[1]:
        return scores
    words = torch.repeat_interleave(torch.arange(len(counts), device=scores.device), counts)
    index = words.expand(len(scores), -1)
    best = torch.full(
        (len(scores), len(counts)), -torch.inf, dtype=scores.dtype, device=scores.device
    )
    best = best.scatter_reduce(1, index, scores, "amax")
    total = torch.zeros_like(best).scatter_add(1, index, (scores - best.gather(1, index)).exp())
    return best + total.log()
