"""The store as clusters: centroids instead of rows, and in each the frequencies of the words that
its rows held.

    p(w) = Σ_c softmax((C ⊗ h + b) / τ)_c · M[w, c]          M[w, c] = share of cluster c's rows that hold w

Our `centroids` are the paper's clustered W_ds; `bias` is b, zero unless it was learned. M is kept
as what of it is not zero, sorted by word: an `entry` is a cluster, and `shares` its log M; `counts`
says how many entries each word has. In log space; a word that no cluster holds has log p = -inf, as
one that no neighbour holds has. Knows nothing of how the clusters were found or of λ."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.base import in_blocks
from knnlm.components.head import row_scores
from knnlm.similarity import Metric

_ROWS = 512
_NUMBERS = 1 << 24  # of the votes that are spread over words at once


class Clusters(NamedTuple):
    """A compressed store. Safe for concurrent calls."""

    keys: tuple[str, ...]
    centroids: torch.Tensor
    """(C, D)"""
    bias: torch.Tensor
    """(C,)"""
    entries: torch.Tensor
    """(E,) int64: clusters, those of word 0 first."""
    shares: torch.Tensor
    """(E,) log M of each entry."""
    counts: torch.Tensor
    """(V,) int64: entries of each word, E in all."""
    metric: Metric
    tau: float

    @property
    def vocab_size(self) -> int:
        """Words that can be predicted."""
        return len(self.counts)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token: those of the centroids, and of the entries of M."""
        return self.centroids.numel() + len(self.entries)

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p (B, V) for states (B, D), largest weight taken out first."""
        weights = self._scores(states.float()).log_softmax(1)
        words = torch.repeat_interleave(
            torch.arange(self.vocab_size, device=states.device), self.counts
        )
        found = []
        for some in weights.split(max(1, _NUMBERS // max(1, len(words)))):
            best = some.max(1, keepdim=True).values
            votes = (some[:, self.entries] + self.shares - best).double().exp()
            mass = torch.zeros(
                len(some), self.vocab_size, dtype=torch.float64, device=states.device
            )
            found.append(mass.index_add(1, words, votes).log().float() + best)
        return torch.cat(found)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,): every row of M that is asked for is spread out, and no other."""
        scores = self._scores(states)
        ends = self.counts.cumsum(0)
        counts = self.counts[targets]
        rows = torch.repeat_interleave(torch.arange(len(targets), device=targets.device), counts)
        first = torch.repeat_interleave(
            ends[targets] - counts - (counts.cumsum(0) - counts), counts
        )
        places = first + torch.arange(len(rows), device=targets.device)
        held = torch.full(scores.shape, -math.inf, dtype=scores.dtype, device=scores.device)
        held[rows, self.entries[places]] = self.shares[places].to(scores.dtype)
        return scores.logsumexp(1) - (scores + held).logsumexp(1)

    def target_logprobs(
        self, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p of one target for each state, a block at a time."""
        return in_blocks(self.target_losses, states, targets, _ROWS)

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        return row_scores(self.centroids, states, self.metric, self.tau, self.bias)


class WordShares(NamedTuple):
    """What of M is not zero (Clusters has the same fields)."""

    entries: torch.Tensor
    shares: torch.Tensor
    counts: torch.Tensor


def word_shares(
    cluster_of: NDArray[np.integer], tokens: NDArray[np.integer], clusters: int, words: int
) -> WordShares:
    """M from the cluster and the token of every stored row."""
    pairs, times = np.unique(tokens.astype(np.int64) * clusters + cluster_of, return_counts=True)
    sizes = np.bincount(cluster_of, minlength=clusters)
    entries, held = pairs % clusters, pairs // clusters
    shares = np.log(times / sizes[entries]).astype(np.float32)
    counts = np.bincount(held, minlength=words)
    return WordShares(
        torch.from_numpy(entries),
        torch.from_numpy(shares),
        torch.from_numpy(counts.astype(np.int64)),
    )
