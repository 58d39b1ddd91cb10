"""Exact search, from disk, in blocks: the truth that every index is measured against.

N×D is never in memory. Three steps, the first fast, the others right:

1. Blocks of rows are searched with FAISS's brute force (matrix products), keeping a few more than k
for each query. L2
   is computed around the mean of the first block: distances stay as they are, and ‖q‖² - 2q·w + ‖w‖² cancels less.
2. The rows kept are scored again from differences (similarity.py): one definition of a real score
everywhere, whatever
   was searched and however the store is cut.
3. Where the worst row kept is too near the k-th best to exclude, within rounding, that an equal or
better row was left
   out (duplicates, ties), the query is searched again for every row above that bar.

So the result is the true top k of the real scores, ties by id.
"""

from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import Column
from knnlm.errors import UsageError
from knnlm.search.neighbors import Neighbors, best_packed, in_order, merge, pack, unpack
from knnlm.similarity import Metric, from_distance, rescore

K_MAX = 4096
BLOCK_BYTES = 1 << 28
MARGIN = 16
_RECHECK = 64
_RESCORED_AT_ONCE = 1 << 15

Floats = NDArray[np.float32]


class _Fast(NamedTuple):
    """Step 1: packed candidates; and, about the centre, the squared lengths of the queries and of
    the longest row."""

    packed: NDArray[np.int64]
    centre: Floats | None
    lengths: Floats
    longest: float


def check_k(k: int) -> None:
    """Refuse a k outside 1 … 4096."""
    if not 1 <= k <= K_MAX:
        raise UsageError(f"k = {k} is out of range: choose 1 to {K_MAX}")


def exact_search(queries: NDArray[Any], keys: Column, k: int, metric: Metric) -> Neighbors:
    """The k nearest rows of `keys` to each query (Q, D); fewer rows than k leave missing
    neighbours."""
    check_k(k)
    fast = _fast(np.ascontiguousarray(queries, np.float32), keys, k + MARGIN, metric)
    kept = unpack(fast.packed, k + MARGIN)
    found = in_order(kept.ids, rescore(metric, queries, kept.ids, keys), k)
    if len(keys) <= k + MARGIN:
        return found
    tolerance = _tolerance(fast, found.scores[:, -1], keys.type.width, metric)
    bar = found.scores[:, -1] - tolerance
    unsure = np.flatnonzero(kept.scores[:, -1] >= bar)
    for start in range(0, len(unsure), _RECHECK):
        part = unsure[start : start + _RECHECK]
        again = _above(queries[part], keys, bar[part] - tolerance[part], k, metric, fast.centre)
        found.ids[part], found.scores[part] = again
    return found


def _fast(queries: Floats, keys: Column, count: int, metric: Metric) -> _Fast:
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    best = np.empty((len(queries), 0), np.int64)
    centre, longest = None, 0.0
    for start, rows in _blocks(keys, count):
        if metric == "l2":
            if centre is None:
                centre = rows.mean(axis=0)
                queries = queries - centre
            rows -= centre
        longest = max(longest, float(np.einsum("nd,nd->n", rows, rows).max()))
        values, ids = faiss.knn(queries, rows, min(count, len(rows)), metric=kind)
        found = pack(ids + start, from_distance(metric, values))
        best = best_packed(np.concatenate([best, found], axis=1), count)
    return _Fast(best, centre, np.einsum("qd,qd->q", queries, queries), longest)


def _tolerance(fast: _Fast, edge: Floats, width: int, metric: Metric) -> Floats:
    """How far the fast score of a row near the edge may be off: fp32's unit × √D × the size of the
    terms, four times.

    Under L2 a row that scores `edge` is no longer than |q| + √-edge, so one far outlier does not
    matter."""
    unit = 4 * np.float32(2.0**-24) * np.sqrt(np.float32(width))
    if metric == "ip":
        return unit * np.sqrt(fast.lengths * np.float32(fast.longest))
    reach = np.sqrt(fast.lengths) + np.sqrt(np.maximum(-edge, 0))
    return unit * (fast.lengths + reach**2)


def _above(
    queries: NDArray[Any], keys: Column, bar: Floats, k: int, metric: Metric, centre: Floats | None
) -> Neighbors:
    """The k best of all rows whose fast score reaches `bar`, by their real scores."""
    wanted = np.asarray(queries, np.float32)
    if centre is not None:
        wanted = wanted - centre
    best = [in_order(np.empty((1, 0), np.int64), np.empty((1, 0), np.float32), k) for _ in queries]
    for start, rows in _blocks(keys, k):
        if centre is not None:
            rows -= centre
        scores = wanted @ rows.T
        if metric == "l2":
            scores *= 2
            scores -= np.einsum("nd,nd->n", rows, rows)
            scores -= np.einsum("qd,qd->q", wanted, wanted)[:, None]
        for place, row in enumerate(scores):
            ids = np.flatnonzero(row >= bar[place])[None] + start
            for first in range(
                0, ids.shape[1], _RESCORED_AT_ONCE
            ):  # a store may hold one state a million times
                some = ids[:, first : first + _RESCORED_AT_ONCE]
                real = rescore(metric, queries[place : place + 1], some, keys)
                best[place] = merge(best[place], Neighbors(some, real), k)
    return Neighbors(
        np.concatenate([p.ids for p in best]), np.concatenate([p.scores for p in best])
    )


def _blocks(keys: Column, least: int) -> Any:
    """(first row, rows in fp32), BLOCK_BYTES at a time."""
    for start, block in keys.blocks(max(least, BLOCK_BYTES // (4 * keys.type.width))):
        yield start, block.astype(np.float32)
