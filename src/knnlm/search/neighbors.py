"""Neighbours of queries: ids and scores, sorted by (score descending, id ascending); a missing one
is (-1, -inf).

The order is total, so a search for k is the head of a search for any larger k, and results do not
depend on how a store was cut. Knows nothing of how neighbours are found."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = -1
_LAST = 0xFFFF_FFFF


class Neighbors(NamedTuple):
    """ids (Q, K) int64 and scores (Q, K) fp32 of Q queries."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]

    def head(self, k: int) -> "Neighbors":
        """The k nearest of each query."""
        return Neighbors(self.ids[:, :k], self.scores[:, :k])


def pack(ids: NDArray[np.integer], scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Score and id as one integer whose ascending order is ours.

    Floats compare like their bits once those of negative numbers are flipped; adding 0 makes -0 and
    +0 the same. Ids take the lower 32 bits, so a store may have 4 billion rows."""
    missing = ids < 0
    bits = (
        (np.where(missing, np.float32(-np.inf), scores) + np.float32(0))
        .view(np.int32)
        .astype(np.int64)
    )
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    return -((bits << 32) + (_LAST - np.where(missing, _LAST, ids)))


def unpack(packed: NDArray[np.int64], k: int) -> Neighbors:
    """The k best of packed candidates (Q, C), in order; fewer than k are filled up with missing
    ones."""
    packed = np.sort(best_packed(packed, k), axis=1)
    bits, place = (-packed) >> 32, _LAST - ((-packed) & _LAST)
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    ids = np.where(place == _LAST, MISSING, place)
    return _filled(Neighbors(ids, bits.astype(np.int32).view(np.float32)), k)


def best_packed(packed: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k best of packed candidates, in any order."""
    return np.partition(packed, k - 1, axis=1)[:, :k] if packed.shape[1] > k else packed


def in_order(ids: NDArray[np.integer], scores: NDArray[np.float32], k: int) -> Neighbors:
    """The k best of the candidates (Q, C) in our order; fewer candidates than k are filled up with
    missing ones."""
    return unpack(pack(ids, scores), k)


def merge(a: Neighbors, b: Neighbors, k: int) -> Neighbors:
    """The k best of two sets of neighbours of the same queries."""
    return in_order(
        np.concatenate([a.ids, b.ids], axis=1), np.concatenate([a.scores, b.scores], axis=1), k
    )


def _filled(found: Neighbors, k: int) -> Neighbors:
    queries, have = found.ids.shape
    if have >= k:
        return found
    ids = np.full((queries, k), MISSING, np.int64)
    scores = np.full((queries, k), -np.inf, np.float32)
    ids[:, :have], scores[:, :have] = found.ids, found.scores
    return Neighbors(ids, scores)


def recall(found: Neighbors, truth: Neighbors) -> float:
    """Share of each query's true neighbours that were found, averaged; ids count, so ties may cost
    a little."""
    shares = [
        len(np.intersect1d(f[f >= 0], t[t >= 0], assume_unique=True)) / max(1, (t >= 0).sum())
        for f, t in zip(found.ids, truth.ids, strict=True)
    ]
    return float(np.mean(shares))
