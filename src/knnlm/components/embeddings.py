"""Ŵ_ds: a small matrix in the place of the store, with a few rows for each word; every row votes.

    p(w) = Σ_{r of w} softmax(Ŵ ⊗ h / τ)_r          that is M · softmax(Ŵ ⊗ h / τ), no mask

The paper's nV × D embeddings, in log space throughout (no clamped probabilities). Rows are sorted by word, and every
word has at least one. Our `weight` is Ŵ_ds, `counts` the rows of each word (the row sums of M). Knows nothing of how
the rows were found or of λ.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.knn import check_tau
from knnlm.components.predictor import in_blocks
from knnlm.errors import KnnlmError
from knnlm.similarity import Metric

_ROWS = 2048


class Embeddings(NamedTuple):
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
        """log p (B, V) for states (B, D), on their device."""
        scores = row_scores(self.weight.to(states.device), states.float(), self.metric, self.tau)
        return by_word(scores, self.counts.to(states.device)) - scores.logsumexp(1, keepdim=True)

    def target_logprobs(self, states: NDArray[Any], targets: NDArray[np.integer]) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time so that the scores stay small."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        return target_losses(row_scores(self.weight, states, self.metric, self.tau), targets, self.counts)


def new_embeddings(
    key: str, weight: torch.Tensor, counts: torch.Tensor, metric: Metric, tau: float = 1.0
) -> Embeddings:
    """Embeddings after checking that rows and words fit together."""
    check_tau(tau)
    if weight.ndim != 2 or int(counts.sum()) != len(weight) or int(counts.min()) < 1:
        raise KnnlmError(f"{len(weight)} rows do not belong to {len(counts)} words of one row or more each")
    return Embeddings((key,), weight, counts, metric, tau)


def row_scores(weight: torch.Tensor, states: torch.Tensor, metric: Metric, tau: float) -> torch.Tensor:
    """Ŵ ⊗ h / τ (B, R). Under L2 without ‖h‖², which is the same for every row and so leaves the softmax as it is."""
    scores = states @ weight.T
    if metric == "l2":
        scores = 2 * scores - weight.square().sum(1)
    return scores / tau if tau != 1 else scores


def target_losses(scores: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """-log p(target) (B,) from row scores (B, R): log Σ over all rows less log Σ over the target's."""
    if len(counts) == scores.shape[1]:  # one row each
        own = scores.gather(1, targets[:, None])[:, 0]
    else:
        starts = counts.cumsum(0) - counts
        places = torch.arange(int(counts.max()), device=scores.device)
        ids = starts[targets, None] + places
        missing = places >= counts[targets, None]
        own = scores.gather(1, ids.masked_fill(missing, 0)).masked_fill(missing, -torch.inf).logsumexp(1)
    return scores.logsumexp(1) - own


def by_word(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """log Σ exp over the rows of each word: (B, R) → (B, V)."""
    if len(counts) == scores.shape[1]:
        return scores
    words = torch.repeat_interleave(torch.arange(len(counts), device=scores.device), counts)
    index = words.expand(len(scores), -1)
    best = torch.full((len(scores), len(counts)), -torch.inf, dtype=scores.dtype, device=scores.device)
    best = best.scatter_reduce(1, index, scores, "amax")
    total = torch.zeros_like(best).scatter_add(1, index, (scores - best.gather(1, index)).exp())
    return best + total.log()
