"""Exact search, from disk, in blocks: the truth that every index is measured against.

N×D is never in memory. Three steps, the first fast, the others right:

1. Blocks of stored states are searched with FAISS's brute force (matrix products), keeping a few
   candidates more than k for each query. L2 is computed around the mean of the first block:
   distances stay as they are, and ‖q‖² - 2q·w + ‖w‖² cancels less.
2. The candidates are scored again from differences (similarity.py): one definition of an exact
   score everywhere, whatever was searched and however the datastore is cut into parts.
3. Where the worst candidate is too near the k-th best to exclude, within rounding, that an equal or
   better entry was left out (duplicates, ties), the query is searched again for every entry above
   that bar.

So the result is the true top k of the exact scores, ties by id.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, assert_never

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.ranges import check_k
from knnlm.search.faiss_index import faiss_metric
from knnlm.search.neighbors import Neighbors, merge, pack, top_k, top_k_packed, unpack
from knnlm.search.scan import can_scan, scan, scan_above
from knnlm.similarity import (
    Metric,
    as_float32,
    from_distance,
    longest_state,
    score_entries,
)

BLOCK_BYTES = 1 << 28
_EXTRA_CANDIDATES = 16
_QUERIES_SEARCHED_AGAIN = 64
_SCORED_AT_ONCE = 1 << 15

Floats = NDArray[np.float32]


def exact_search(queries: NDArray[Any], keys: Column, k: int, metric: Metric) -> Neighbors:
    """The k entries whose states are nearest to each query.

    Args:
        queries: (Q, D) hidden states.
        keys: The column of stored states, memory-mapped.
        k: Neighbors of each query, 1 to 4096; a smaller datastore leaves missing neighbors.
        metric: "l2" or "ip".

    Returns:
        Neighbors of shape (Q, k) with exact scores.

    Raises:
        UsageError: k is out of range.

    Example:
        >>> store = open_entries("store")
        >>> near = exact_search(store.key("att").read(0, 5), store.key("att"), 8, "l2")
        >>> near.ids[:, 0]  # every entry is its own nearest neighbor
        array([0, 1, 2, 3, 4])
    """
    check_k(k)
    if can_scan(len(queries), keys):
        return _scanned(np.ascontiguousarray(queries, np.float32), keys, k, metric)
    count = k + _EXTRA_CANDIDATES
    fast = _candidates(np.ascontiguousarray(queries, np.float32), keys, count, metric)
    candidates = unpack(fast.packed, count)
    nearest = with_exact_scores(candidates, queries, keys, metric, k)
    if len(keys) <= count:
        return nearest
    tolerance = _tolerance(fast, nearest.scores[:, -1], keys.type.width, metric)
    bar = nearest.scores[:, -1] - tolerance
    unsure = np.flatnonzero(candidates.scores[:, -1] >= bar)
    for start in range(0, len(unsure), _QUERIES_SEARCHED_AGAIN):
        part = unsure[start : start + _QUERIES_SEARCHED_AGAIN]
        nearest.ids[part], nearest.scores[part] = _search_above(
            queries[part], keys, bar[part] - tolerance[part], k, metric, fast.center
        )
    return nearest


def with_exact_scores(
    neighbors: Neighbors, queries: NDArray[Any], keys: Column, metric: Metric, k: int | None = None
) -> Neighbors:
    """The same neighbors, scored by the similarity of their stored states, in the order of that.

    Args:
        neighbors: (Q, C) candidates of the queries, for instance those that an index found; their
            scores are not looked at.
        queries: (Q, D) hidden states.
        keys: The column of stored states.
        metric: "l2" or "ip".
        k: Keep the k nearest of them; by default all.
    """
    scores = score_entries(metric, queries, neighbors.ids, keys)
    return top_k(neighbors.ids, scores, neighbors.ids.shape[1] if k is None else k)


def _scanned(queries: Floats, keys: Column, k: int, metric: Metric) -> Neighbors:
    """The same three steps for a few queries. The scanner's sums have no terms that cancel, and
    differ from exact scores by the rounding of fp32 alone."""
    count = k + _EXTRA_CANDIDATES
    candidates = scan(queries, keys, count, metric)
    nearest = with_exact_scores(candidates, queries, keys, metric, k)
    if len(keys) <= count:
        return nearest
    edge = nearest.scores[:, -1]
    match metric:
        case "l2":
            size = -edge
        case "ip":
            lengths = np.einsum("qd,qd->q", queries, queries)
            size = np.sqrt(lengths * np.float32(longest_state(keys)))
        case _:
            assert_never(metric)
    bar = edge - _unit(keys.type.width) * size
    for query in np.flatnonzero(candidates.scores[:, -1] >= bar):
        near = top_k(np.empty((1, 0), np.int64), np.empty((1, 0), np.float32), k)
        for ids in scan_above(queries[query], keys, float(bar[query]), metric):
            scores = score_entries(metric, queries[query : query + 1], ids[None], keys)
            near = merge(near, Neighbors(ids[None], scores), k)
        nearest.ids[query], nearest.scores[query] = near
    return nearest


def _unit(width: int) -> np.float32:
    """fp32's unit × √D, four times: how far a sum of D terms may be off, in units of their size."""
    return np.float32(4 * 2.0**-24) * np.sqrt(np.float32(width))


class _Candidates(NamedTuple):
    """What step 1 keeps: packed candidates, and squared lengths around the center, of each query
    and of the longest stored state."""

    packed: NDArray[np.int64]
    center: Floats | None
    query_lengths: Floats
    longest: float


def _candidates(queries: Floats, keys: Column, count: int, metric: Metric) -> _Candidates:
    """Step 1: about the nearest `count` entries, by scores that rounding may have changed."""
    best = np.empty((len(queries), 0), np.int64)
    center, longest = None, 0.0
    for start, states in _blocks(keys, count):
        match metric:
            case "l2":
                if center is None:
                    center = states.mean(axis=0)
                    queries = queries - center
                states -= center
            case "ip":
                pass
            case _:
                assert_never(metric)
        longest = max(longest, float(np.einsum("nd,nd->n", states, states).max()))
        values, ids = faiss.knn(queries, states, min(count, len(states)), faiss_metric(metric))
        packed = pack(ids + start, from_distance(metric, values))
        best = top_k_packed(np.concatenate([best, packed], axis=1), count)
    return _Candidates(best, center, np.einsum("qd,qd->q", queries, queries), longest)


def _tolerance(fast: _Candidates, edge: Floats, width: int, metric: Metric) -> Floats:
    """How far the fast score of an entry near the edge may be off: fp32's unit × √D × the size of
    the terms, four times.

    Under L2 a state that scores `edge` is no longer than |q| + √-edge, so one far outlier does not
    matter.
    """
    unit = _unit(width)
    match metric:
        case "l2":
            reach = np.sqrt(fast.query_lengths) + np.sqrt(np.maximum(-edge, 0))
            return unit * (fast.query_lengths + reach**2)
        case "ip":
            return unit * np.sqrt(fast.query_lengths * np.float32(fast.longest))
        case _:
            assert_never(metric)


def _search_above(
    queries: NDArray[Any], keys: Column, bar: Floats, k: int, metric: Metric, center: Floats | None
) -> Neighbors:
    """Step 3: of all entries whose fast score reaches `bar`, the k best by their exact scores."""
    centered = np.asarray(queries, np.float32)
    if center is not None:
        centered = centered - center
    best = [top_k(np.empty((1, 0), np.int64), np.empty((1, 0), np.float32), k) for _ in queries]
    for start, states in _blocks(keys, k):
        if center is not None:
            states -= center
        fast_scores = centered @ states.T
        match metric:
            case "l2":
                fast_scores *= 2
                fast_scores -= np.einsum("nd,nd->n", states, states)
                fast_scores -= np.einsum("qd,qd->q", centered, centered)[:, None]
            case "ip":
                pass
            case _:
                assert_never(metric)
        for i, row in enumerate(fast_scores):
            ids = np.flatnonzero(row >= bar[i])[None] + start
            # in pieces: a datastore may hold one state a million times
            for first in range(0, ids.shape[1], _SCORED_AT_ONCE):
                piece = ids[:, first : first + _SCORED_AT_ONCE]
                scores = score_entries(metric, queries[i : i + 1], piece, keys)
                best[i] = merge(best[i], Neighbors(piece, scores), k)
    return Neighbors(
        np.concatenate([near.ids for near in best]), np.concatenate([near.scores for near in best])
    )


def _blocks(keys: Column, least: int) -> Iterator[tuple[int, Floats]]:
    """(id of the first entry, states in fp32), BLOCK_BYTES at a time."""
    for start, block in keys.blocks(max(least, BLOCK_BYTES // (4 * keys.type.width))):
        yield start, as_float32(block)
