"""The store as clusters: centroids instead of rows, and in each the frequencies of the words that its rows held.

    p(w) = Σ_c softmax((C ⊗ h + b) / τ)_c · M[w, c]          M[w, c] = share of cluster c's rows that hold w

Our `centroids` are the paper's clustered W_ds, `shares` its M; `bias` is b, zero unless it was learned. In log space; a
word that no cluster holds has log p = -inf, as one that no neighbour holds has. Knows nothing of how the clusters were
found or of λ.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.embeddings import row_scores
from knnlm.components.predictor import in_blocks
from knnlm.similarity import Metric

_ROWS = 512


class Clusters(NamedTuple):
    """A compressed store. Safe for concurrent calls."""

    keys: tuple[str, ...]
    centroids: torch.Tensor
    """(C, D)"""
    shares: torch.Tensor
    """log M, (V, C); -inf where a cluster does not hold a word."""
    bias: torch.Tensor
    """(C,)"""
    metric: Metric
    tau: float

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return len(self.shares)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token: those of the centroids, and of the entries of M that are not zero."""
        return self.centroids.numel() + int(self.shares.isfinite().sum())

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, D): a product of matrices, largest term taken out first."""
        weights = self._scores(states.float()).log_softmax(1)
        best = weights.max(1, keepdim=True).values
        return ((weights - best).double().exp() @ self.shares.double().exp().T).log().float() + best

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,)."""
        scores = self._scores(states)
        return scores.logsumexp(1) - (scores + self.shares[targets]).logsumexp(1)

    def target_logprobs(self, states: NDArray[Any], targets: NDArray[np.integer]) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        return row_scores(self.centroids, states, self.metric, self.tau) + self.bias / self.tau


def word_shares(
    cluster_of: NDArray[np.integer], tokens: NDArray[np.integer], clusters: int, words: int
) -> torch.Tensor:
    """log M (V, C) from the cluster and the token of every stored row."""
    counts = np.zeros((words, clusters), np.float64)
    np.add.at(counts, (tokens, cluster_of), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts / counts.sum(axis=0, keepdims=True))
    return torch.from_numpy(np.nan_to_num(found, nan=-np.inf, neginf=-np.inf).astype(np.float32))
