"""Other scores for neighbors that were searched already, and the neighbors that zero entries would
add. No search here.

decoded    exact search, scores of the index: similarity to the entries as an index decodes them
           (what Table 3 leaves out)
half       exact scores in fp16, as the paper's code recomputes them (F6)
flipped    an L2 index's distances taken for similarities (F4)
with_zeros what exact search returns when all-zero entries lie among the others (F1)"""

from collections.abc import Callable
from typing import Any, assert_never

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import Column, ColumnType
from knnlm.search import score_entries
from knnlm.search.index import Index
from knnlm.search.neighbors import NeighborBlocks, Neighbors, NeighborsInMemory, merge, top_k
from knnlm.similarity import Metric

_BLOCK = 1 << 10


def decoded(near: NeighborBlocks, queries: Column, index: Index) -> NeighborsInMemory:
    """The same neighbors with the scores that `index` would give them."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # rescoring uses all cores itself
    try:
        entries = _Decoded(index)
        return _changed(
            near, lambda n, at: score_entries(index.metric, queries.read(*at), n.ids, entries)
        )
    finally:
        faiss.omp_set_num_threads(threads)


def half(
    near: NeighborBlocks, queries: Column, column: Column, metric: Metric
) -> NeighborsInMemory:
    """The same neighbors with similarities whose terms and sum are rounded to fp16."""

    def score(some: Neighbors, at: tuple[int, int]) -> NDArray[np.float32]:
        asked = queries.read(*at).astype(np.float16)
        scores = np.empty(some.ids.shape, np.float32)
        # one query at a time: its entries fit the processor's cache
        for number, ids in enumerate(some.ids):
            states = column.gather(np.maximum(ids, 0)).astype(np.float16)
            match metric:
                case "l2":
                    terms = -((states - asked[number]) ** 2)
                case "ip":
                    terms = states * asked[number]
                case _:
                    assert_never(metric)
            total = terms.sum(axis=1, dtype=np.float32)
            scores[number] = total.astype(np.float16).astype(np.float32)
        return np.where(some.ids < 0, np.float32(-np.inf), scores)

    return _changed(near, score)


def flipped(near: NeighborBlocks) -> NeighborsInMemory:
    """The same neighbors with the opposite scores: the farthest of them weighs most."""
    return _changed(near, lambda n, _: np.where(n.ids < 0, np.float32(-np.inf), -n.scores))


def with_zeros(
    near: NeighborBlocks, queries: Column, metric: Metric, zeros: int, entries: int
) -> NeighborsInMemory:
    """What exact search would find if `zeros` all-zero entries followed the datastore's `entries`.
    They tie, so ids decide."""
    width = queries.type.width
    zero = Column([np.zeros((1, width), np.float32)], ColumnType("<f4", width))
    parts = []
    for start in range(0, len(near), _BLOCK):
        clean = near.read(start, start + _BLOCK)
        asked = queries.read(start, start + _BLOCK)
        count = min(zeros, near.k)
        score = score_entries(metric, asked, np.zeros((len(asked), 1), np.int64), zero)
        ids = np.broadcast_to(entries + np.arange(count), (len(asked), count))
        parts.append(merge(clean, Neighbors(ids, np.broadcast_to(score, ids.shape)), near.k))
    return _held(parts)


class _Decoded:
    """An index's entries as it decodes them, by id."""

    def __init__(self, index: Index) -> None:
        self.index: Any = index.faiss
        ivf = faiss.try_extract_index_ivf(self.index)
        if ivf is not None:
            ivf.make_direct_map()

    def gather(self, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """Entries `ids` of any shape."""
        flat = np.ascontiguousarray(ids.ravel(), np.int64)
        states: NDArray[np.float32] = self.index.reconstruct_batch(flat)
        return states.reshape(*ids.shape, -1)


def _changed(
    near: NeighborBlocks, score: Callable[[Neighbors, tuple[int, int]], NDArray[np.float32]]
) -> NeighborsInMemory:
    parts = []
    for start in range(0, len(near), _BLOCK):
        some = near.read(start, start + _BLOCK)
        parts.append(top_k(some.ids, score(some, (start, start + _BLOCK)), near.k))
    return _held(parts)


def _held(parts: list[Neighbors]) -> NeighborsInMemory:
    return NeighborsInMemory(
        Neighbors(np.concatenate([p.ids for p in parts]), np.concatenate([p.scores for p in parts]))
    )
