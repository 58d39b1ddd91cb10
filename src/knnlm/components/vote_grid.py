"""log p_kNN of targets at many k and many τ at once, from one block of neighbors.

    log p_kNN(target; k, τ) = log Σ_{hits i ≤ k} e^(s_i/τ) - log Σ_{i ≤ k} e^(s_i/τ)

Neighbors come nearest first, so sums over the columns between one k and the next, added up, are the
sums of every k. Hits are summed apart, relative to the best of them: the first k that has a hit has
a weight of 1 among them if scores are sorted, so no sum of hits can underflow.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knnlm.components.weight_sums import WeightSums

_WEIGHTS_AT_ONCE = 1 << 17
"""Neighbors of a block: a megabyte for each array of float64, and few calls for each query."""


class VoteGrid:
    """log p_kNN of targets for every k and τ, a block of queries at a time. It keeps memory between
    blocks, so each thread has its own.

    Args:
        ks: How many of the nearest vote: ascending.
        taus: Retrieval temperatures in any order.

    Example:
        >>> scores, hits = np.zeros((1, 2), np.float32), np.array([[False, True]])
        >>> np.exp(VoteGrid([1, 2], [1.0]).logprobs(scores, hits, [0]))[:, 0, 0]
        array([0. , 0.5])
    """

    def __init__(self, ks: Sequence[int], taus: Sequence[float]) -> None:
        self.ks = np.asarray(ks)
        self._rates = 1 / np.asarray(taus, np.float64)
        self._sums = WeightSums(taus)
        self._first_columns = np.concatenate([[0], self.ks[:-1]])
        self._number_of_k = np.searchsorted(self.ks, np.arange(self.ks[-1]), side="right")
        self._memory = np.empty(0)

    def logprobs(
        self, scores: NDArray[np.float32], hits: NDArray[np.bool_], covered: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """log p_kNN (k, τ, covered query) of targets; -inf where the first k do not hold one.

        Args:
            scores: (Q, K) of neighbors, K at least the last k; nearest first if there are several
                k; -inf where one is missing.
            hits: (Q, K), which neighbors hold the query's target.
            covered: Queries of which one of these neighbors does.
        """
        logs = np.empty((len(self.ks), len(self._rates), len(covered)))
        widest = int(self.ks[-1])
        at_once = max(1, _WEIGHTS_AT_ONCE // widest)
        for start in range(0, len(covered), at_once):
            block = slice(start, start + at_once)
            some = covered[block]
            of_some = self._block(scores[some, :widest], hits[some, :widest])
            logs[:, :, block] = of_some.transpose(1, 2, 0)
        return logs

    def _block(self, scores: NDArray[np.float32], hits: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(Q, k, τ) of few queries, each with a hit."""
        count, widest = scores.shape
        members = np.flatnonzero(hits)
        queries = members // widest
        memory = self._buffer(scores.size + len(members))
        distances, of_hits = memory[: scores.size], memory[scores.size :]
        best = scores.max(axis=1, keepdims=True)
        np.subtract(best, scores, out=distances.reshape(scores.shape), dtype=np.float64)
        np.take(distances, members, out=of_hits, mode="clip")
        nearest = np.minimum.reduceat(of_hits, np.searchsorted(queries, np.arange(count)))
        of_hits -= nearest[queries]
        groups = queries * len(self.ks) + self._number_of_k[members - queries * widest]
        starts = np.arange(count)[:, None] * widest + self._first_columns
        starts_of_hits = np.searchsorted(groups, np.arange(count * len(self.ks) + 1))
        edges = np.concatenate([starts.ravel(), scores.size + starts_of_hits])
        totals, logs = self._of_all_k(self._sums(memory, edges))
        logs /= totals
        with np.errstate(divide="ignore"):
            np.log(logs, out=logs)
        logs -= (nearest[:, None] * self._rates)[:, None]
        return logs

    def _buffer(self, size: int) -> NDArray[np.float64]:
        """Memory that is kept: new pages would take as long as what is computed in them."""
        if len(self._memory) < size:
            self._memory = np.empty(size)
        return self._memory[:size]

    def _of_all_k(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """(2, Q, k, τ) of the first k columns, of all and of hits, from sums of the columns between
        one k and the next."""
        summed = sums.reshape(2, -1, len(self.ks), len(self._rates))
        for number in range(1, len(self.ks)):
            summed[:, :, number] += summed[:, :, number - 1]
        return summed
