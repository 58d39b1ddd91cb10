"""Exact scores of entries that are named by id: one definition, whoever asks.

fp16 states of a datastore are scored as the scanner of scan.py sums them, straight from fp16; other
states by similarity.py. Both sum differences (L2) or products in fp32.
"""

import threading
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search.scan import FP16, scan_all
from knnlm.similarity import Metric, score_states
from knnlm.workers import on_all_cores

_STATES_AT_ONCE = 1 << 10


class StatesById(Protocol):
    """Stored states that can be read by id: a column of a datastore, or what an index decodes."""

    def gather(self, ids: NDArray[np.integer]) -> NDArray[Any]:
        """States (…, D) of `ids` of any shape (…)."""
        ...


def score_entries(
    metric: Metric, queries: NDArray[Any], ids: NDArray[np.integer], keys: StatesById
) -> NDArray[np.float32]:
    """Exact similarities of queries to entries that are named by id, on all cores.

    Args:
        metric: "l2" or "ip".
        queries: (B, D).
        ids: (B, K) entries of each query; a missing one is negative.
        keys: The stored states.

    Returns:
        (B, K) float32; -inf where the id is missing.
    """
    asked, scores = np.ascontiguousarray(queries, np.float32), np.empty(ids.shape, np.float32)

    def score_piece(piece: tuple[int, int]) -> None:
        row, some = piece[0], slice(piece[1], piece[1] + _STATES_AT_ONCE)
        scores[row, some] = score_row(metric, asked[row], np.maximum(ids[row, some], 0), keys)

    starts = range(0, ids.shape[1], _STATES_AT_ONCE)
    pieces = [(row, start) for row in range(len(ids)) for start in starts]
    on_all_cores(score_piece, pieces)
    return np.where(ids < 0, np.float32(-np.inf), scores)


def score_row(
    metric: Metric, query: NDArray[np.float32], ids: NDArray[np.integer], keys: StatesById
) -> NDArray[np.float32]:
    """Exact similarities of one query (D,) to entries (K,); states are read in their order."""
    order, scores = np.argsort(ids), np.empty(len(ids), np.float32)
    if isinstance(keys, Column) and keys.type.dtype == FP16:
        states = keys.gather(ids[order], _scratch.rows(len(ids), keys.type.width))
        scores[order] = scan_all(query, states, metric)
    else:
        scores[order] = score_states(metric, query[None], keys.gather(ids[order])[None])[0]
    return scores


class _Scratch(threading.local):
    """Memory that each thread reads states into: fresh memory would cost as much as the reading."""

    def __init__(self) -> None:
        self.memory = np.empty(0, FP16)

    def rows(self, count: int, width: int) -> NDArray[np.float16]:
        """Some rows of it."""
        if len(self.memory) < count * width:
            self.memory = np.empty(count * width, FP16)
        return self.memory[: count * width].reshape(count, width)


_scratch = _Scratch()
