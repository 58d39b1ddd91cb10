"""Exact search, from disk, in blocks: the truth that every index is measured against.

N×D is never in memory: a block of rows is converted to fp32, searched with FAISS's brute force, and merged into the
best k so far. L2 is computed around the mean of the first block, which leaves distances as they are and keeps the
expansion ‖q‖² - 2q·w + ‖w‖² from cancelling where states share a large common part.
"""

from collections.abc import Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.errors import UsageError
from knnlm.search.neighbors import Neighbors, best_packed, pack, unpack
from knnlm.similarity import Metric, from_distance
from knnlm.states.table import Column

K_MAX = 4096
BLOCK_BYTES = 1 << 28


def check_k(k: int) -> None:
    """Refuse a k outside 1 … 4096."""
    if not 1 <= k <= K_MAX:
        raise UsageError(f"k = {k} is out of range: choose 1 to {K_MAX}")


def exact_search(queries: NDArray[Any], keys: Column, k: int, metric: Metric) -> Neighbors:
    """The k nearest rows of `keys` to each query (Q, D); fewer rows than k leave missing neighbours."""
    check_k(k)
    wanted = np.ascontiguousarray(queries, np.float32)
    best = np.empty((len(queries), 0), np.int64)
    centre = None
    for start, block in keys.blocks(max(k + 1, BLOCK_BYTES // (4 * keys.type.width))):
        rows = block.astype(np.float32)
        if metric == "l2":
            if centre is None:
                centre = rows.mean(axis=0)
                wanted = wanted - centre
            rows -= centre
        found = _search_block(wanted, rows, start, k, metric)
        best = best_packed(np.concatenate([best, found], axis=1), k)
    return unpack(best, k)


def _search_block(
    queries: NDArray[np.float32], rows: NDArray[np.float32], start: int, k: int, metric: Metric
) -> NDArray[np.int64]:
    """Candidates of one block, packed. One more than k is asked for: if the last two score the same, ids must decide."""
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    values, ids = faiss.knn(queries, rows, min(k + 1, len(rows)), metric=kind)
    packed = pack(ids + start, from_distance(metric, values))
    if ids.shape[1] > k:
        edge = values.max(axis=1) if metric == "l2" else values.min(axis=1)
        ties = np.flatnonzero((values == edge[:, None]).sum(axis=1) > 1)
        for part in _slices(ties, len(rows)):
            packed[part] = _with_ties(queries[part], rows, start, k + 1, metric)
    return packed


def _with_ties(
    queries: NDArray[np.float32], rows: NDArray[np.float32], start: int, k: int, metric: Metric
) -> NDArray[np.int64]:
    """All scores of a few queries, where FAISS left to chance which of equal rows it kept."""
    scores = queries @ rows.T
    if metric == "l2":
        norms = np.einsum("nd,nd->n", rows, rows)
        scores = np.minimum(2 * scores - norms - np.einsum("qd,qd->q", queries, queries)[:, None], 0)
    ids = np.broadcast_to(np.arange(start, start + len(rows)), scores.shape)
    return best_packed(pack(ids, scores), k)


def _slices(which: NDArray[np.integer], width: int) -> Iterator[NDArray[np.integer]]:
    """Portions of `which` whose dense scores stay small."""
    size = max(1, BLOCK_BYTES // (32 * width))
    for start in range(0, len(which), size):
        yield which[start : start + size]
