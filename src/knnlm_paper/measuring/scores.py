"""Other scores for neighbours that were found already, and the neighbours that zero rows would add.
No search here.

decoded    real mask, FAISS score: similarity to the rows as an index decodes them (Table 3's
           missing arm)
half       real scores in fp16, as the paper's code recomputes them (F6)
flipped    an L2 index's distances taken for similarities (F4)
with_zeros what exact search returns when all-zero rows lie among the others (F1)"""

from collections.abc import Callable
from typing import Any, assert_never

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import Column
from knnlm.search.index import Index
from knnlm.search.neighbors import NeighborBlocks, Neighbors, NeighborsInMemory, merge, top_k
from knnlm.similarity import Metric, score_entries, score_states

_BLOCK = 1 << 10


def decoded(found: NeighborBlocks, queries: Column, index: Index) -> NeighborsInMemory:
    """The same neighbours with the scores that `index` would give them."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # rescoring uses all cores itself
    try:
        rows = _Decoded(index)
        return _changed(
            found, lambda near, at: score_entries(index.metric, queries.read(*at), near.ids, rows)
        )
    finally:
        faiss.omp_set_num_threads(threads)


def half(
    found: NeighborBlocks, queries: Column, column: Column, metric: Metric
) -> NeighborsInMemory:
    """The same neighbours with similarities whose terms and sum are rounded to fp16."""

    def score(near: Neighbors, at: tuple[int, int]) -> NDArray[np.float32]:
        asked = queries.read(*at).astype(np.float16)
        scores = np.empty(near.ids.shape, np.float32)
        # one query at a time: its rows fit the processor's cache
        for number, ids in enumerate(near.ids):
            rows = column.gather(np.maximum(ids, 0)).astype(np.float16)
            match metric:
                case "l2":
                    terms = -((rows - asked[number]) ** 2)
                case "ip":
                    terms = rows * asked[number]
                case _:
                    assert_never(metric)
            total = terms.sum(axis=1, dtype=np.float32)
            scores[number] = total.astype(np.float16).astype(np.float32)
        return np.where(near.ids < 0, np.float32(-np.inf), scores)

    return _changed(found, score)


def flipped(found: NeighborBlocks) -> NeighborsInMemory:
    """The same neighbours with the opposite scores: the farthest of them weighs most."""
    return _changed(
        found, lambda near, _: np.where(near.ids < 0, np.float32(-np.inf), -near.scores)
    )


def with_zeros(
    found: NeighborBlocks, queries: Column, metric: Metric, zeros: int, rows: int
) -> NeighborsInMemory:
    """What exact search would find if `zeros` all-zero rows followed the store's `rows`. They tie,
    so ids decide."""
    parts = []
    for start in range(0, len(found), _BLOCK):
        near = found.read(start, start + _BLOCK)
        asked = queries.read(start, start + _BLOCK)
        count = min(zeros, found.k)
        score = score_states(metric, asked, np.zeros((len(asked), 1, asked.shape[1]), np.float32))
        ids = np.broadcast_to(rows + np.arange(count), (len(asked), count))
        parts.append(merge(near, Neighbors(ids, np.broadcast_to(score, ids.shape)), found.k))
    return _held(parts)


class _Decoded:
    """An index's rows as it decodes them, by id."""

    def __init__(self, index: Index) -> None:
        self.index: Any = index.faiss
        ivf = faiss.try_extract_index_ivf(self.index)
        if ivf is not None:
            ivf.make_direct_map()

    def gather(self, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows `ids` of any shape."""
        flat = np.ascontiguousarray(ids.ravel(), np.int64)
        rows: NDArray[np.float32] = self.index.reconstruct_batch(flat)
        return rows.reshape(*ids.shape, -1)


def _changed(
    found: NeighborBlocks, score: Callable[[Neighbors, tuple[int, int]], NDArray[np.float32]]
) -> NeighborsInMemory:
    parts = []
    for start in range(0, len(found), _BLOCK):
        near = found.read(start, start + _BLOCK)
        parts.append(top_k(near.ids, score(near, (start, start + _BLOCK)), found.k))
    return _held(parts)


def _held(parts: list[Neighbors]) -> NeighborsInMemory:
    return NeighborsInMemory(
        Neighbors(np.concatenate([p.ids for p in parts]), np.concatenate([p.scores for p in parts]))
    )
