"""Neighbors of queries: ids and scores in one total order.

Nearest first: by score descending, then by id ascending. A missing neighbor has id -1 and score
-inf, and comes last. Because the order is total, a search for k is the head of a search for any
larger k, and results do not depend on how a datastore is cut into parts.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

MISSING = -1
"""The id of a neighbor that does not exist."""
_LOW_32_BITS = 0xFFFF_FFFF


class Neighbors(NamedTuple):
    """The neighbors of Q queries, nearest first.

    Attributes:
        ids: (Q, K) int64; entries of the datastore, or MISSING.
        scores: (Q, K) float32; higher is nearer, -inf for a missing neighbor.

    Example:
        >>> near = store.search(states, k=10)    # doctest: +SKIP
        >>> near.ids[0], near.scores[0]          # doctest: +SKIP
        >>> near.head(3).ids                     # doctest: +SKIP
    """

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]

    def of(self, query: int) -> "Neighbors":
        """The neighbors of one query, (1, K).

        Args:
            query: Its number.

        Returns:
            Its neighbors, nearest first.
        """
        return Neighbors(self.ids[query : query + 1], self.scores[query : query + 1])

    def head(self, k: int) -> "Neighbors":
        """The k nearest of each query.

        Args:
            k: How many to keep.

        Returns:
            Neighbors (Q, k); all of them where there are fewer than k.
        """
        return Neighbors(self.ids[:, :k], self.scores[:, :k])


def top_k(ids: NDArray[np.integer], scores: NDArray[np.float32], k: int) -> Neighbors:
    """The k nearest of some candidates, in order.

    Args:
        ids: (Q, C) candidates of each query, in any order; negative ids are missing.
        scores: (Q, C) their scores.
        k: How many to keep; fewer candidates are filled up with missing neighbors.

    Returns:
        Neighbors of shape (Q, k).

    Example:
        >>> top_k(np.array([[7, 3, 5]]), np.array([[1, 2, 2]], np.float32), 2).ids
        array([[3, 5]])
    """
    return unpack(pack(ids, scores), k)


def merge(a: Neighbors, b: Neighbors, k: int) -> Neighbors:
    """The k nearest of two sets of neighbors of the same queries."""
    return top_k(
        np.concatenate([a.ids, b.ids], axis=1), np.concatenate([a.scores, b.scores], axis=1), k
    )


def pack(ids: NDArray[np.integer], scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Score and id of each candidate as one integer whose ascending order is that of neighbors.

    Floats compare like their bits once those of negative numbers are flipped; adding 0 makes -0 and
    +0 the same. Ids take the lower 32 bits, so a datastore may have 4 billion entries.
    """
    missing = ids < 0
    values = np.where(missing, np.float32(-np.inf), scores) + np.float32(0)
    bits = values.view(np.int32).astype(np.int64)
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    return -((bits << 32) + (_LOW_32_BITS - np.where(missing, _LOW_32_BITS, ids)))


def unpack(packed: NDArray[np.int64], k: int) -> Neighbors:
    """The k nearest of packed candidates (Q, C), in order, filled up with missing neighbors."""
    packed = np.sort(top_k_packed(packed, k), axis=1)
    bits, ids = (-packed) >> 32, _LOW_32_BITS - ((-packed) & _LOW_32_BITS)
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    scores = bits.astype(np.int32).view(np.float32)
    return _filled(Neighbors(np.where(ids == _LOW_32_BITS, MISSING, ids), scores), k)


def top_k_packed(packed: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k nearest of packed candidates (Q, C), in any order; all of them where C ≤ k."""
    return np.partition(packed, k - 1, axis=1)[:, :k] if packed.shape[1] > k else packed


def recall(neighbors: Neighbors, truth: Neighbors) -> float:
    """recall@k: the share of each query's true neighbors that were found, averaged over queries.

    Ids are compared, not scores, so that equal scores at the edge may cost a little.

    Args:
        neighbors: What a search returned.
        truth: What exact search returns for the same queries.
    """
    shares = [
        len(np.intersect1d(ids[ids >= 0], true[true >= 0], assume_unique=True))
        / max(1, (true >= 0).sum())
        for ids, true in zip(neighbors.ids, truth.ids, strict=True)
    ]
    return float(np.mean(shares))


def _filled(neighbors: Neighbors, k: int) -> Neighbors:
    """At least k neighbors of each query, the last of them missing."""
    queries, count = neighbors.ids.shape
    if count >= k:
        return neighbors
    ids = np.full((queries, k), MISSING, np.int64)
    scores = np.full((queries, k), -np.inf, np.float32)
    ids[:, :count], scores[:, :count] = neighbors
    return Neighbors(ids, scores)


class NeighborBlocks(Protocol):
    """The k neighbors of every query of a text."""

    k: int

    def __len__(self) -> int: ...
    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbors of queries start … stop-1."""
        ...


class NeighborsInMemory:
    """Neighbors in memory, readable like cached ones."""

    def __init__(self, near: Neighbors) -> None:
        self.near, self.k = near, int(near.ids.shape[1])

    def __len__(self) -> int:
        return len(self.near.ids)

    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbors of queries start … stop-1."""
        return Neighbors(self.near.ids[start:stop], self.near.scores[start:stop])
