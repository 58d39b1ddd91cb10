"""Exact scores of pairs of a query and an entry: one definition, whoever asks.

Differences (L2) or products are summed in fp32, by one function of FAISS for every pair. A pair's
score does not depend on what else is scored with it.
"""

import threading
from itertools import pairwise
from typing import Any, Protocol, assert_never

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.similarity import Metric, from_distance
from knnlm.tensors import read_only_tensor
from knnlm.workers import has_one_core, on_all_cores

_STATES_AT_ONCE = 1 << 11
_TILE_ENTRIES = 1 << 11
_PAIRS_OF_A_TILE = 1 << 10
"""From so many pairs a tile on, all of it is read: an estimate, not fitted."""


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
    asked = np.ascontiguousarray(queries, np.float32)
    if isinstance(keys, Column) and ids.size * _TILE_ENTRIES >= _PAIRS_OF_A_TILE * len(keys):
        return _score_by_tiles(metric, asked, ids, keys)
    if isinstance(keys, Column) and len(ids) == 1 and not has_one_core():
        return _score_one_query(metric, asked, ids, keys)
    order = np.argsort(ids, axis=1)  # states are read in the order they lie in
    ordered, scores = np.take_along_axis(ids, order, axis=1), np.empty(ids.shape, np.float32)

    def score_piece(piece: tuple[int, int, int]) -> None:
        row, start, stop = piece
        some = np.maximum(ordered[row, start:stop], 0)
        scores[row, order[row, start:stop]] = score_row(metric, asked[row], some, keys)

    cuts = -(-ids.shape[1] // _STATES_AT_ONCE)
    edges = np.linspace(0, ids.shape[1], cuts + 1).astype(int).tolist()
    pieces = [(row, *ends) for row in range(len(ids)) for ends in pairwise(edges)]
    if len(pieces) == 1:
        score_piece(pieces[0])
    else:
        on_all_cores(score_piece, pieces)
    return np.where(ids < 0, np.float32(-np.inf), scores)


def _score_by_tiles(
    metric: Metric, queries: NDArray[np.float32], ids: NDArray[np.integer], keys: Column
) -> NDArray[np.float32]:
    """The same, a tile of entries after the other: where many pairs share a tile, reading all of it
    once is faster than reading entries in the order of queries."""
    flat, scores = ids.ravel(), np.full(ids.size, -np.inf, np.float32)
    tiles = -(-len(keys) // _TILE_ENTRIES)
    tile_of = np.where(flat < 0, tiles, flat // _TILE_ENTRIES)
    small = tile_of.astype(np.uint16) if tiles < 1 << 16 else tile_of  # 16 bits: a radix sort
    order = np.argsort(small, kind="stable")
    edges = np.cumsum(np.bincount(tile_of, minlength=tiles + 1))

    def score_tile(tile: int) -> None:
        pairs, start = order[edges[tile] - counts[tile] : edges[tile]], tile * _TILE_ENTRIES
        if len(pairs):
            states = wide_states(keys.read(start, start + _TILE_ENTRIES))
            rows, columns = pairs // ids.shape[1], flat[pairs] - start
            scores[pairs] = score_pairs(metric, queries, rows, states, columns.astype(np.int64))

    counts = np.diff(edges, prepend=0)
    on_all_cores(score_tile, range(tiles))
    return scores.reshape(ids.shape)


def _score_one_query(
    metric: Metric, queries: NDArray[np.float32], ids: NDArray[np.integer], keys: Column
) -> NDArray[np.float32]:
    """The same for one query, as a step of generation asks. The threads of PyTorch, which have just
    run the LM, are faster than to wake others."""
    order = np.argsort(ids[0])
    ordered = np.maximum(ids[0, order], 0)
    states = torch.empty(len(order), keys.type.width, dtype=read_only_tensor(keys.parts[0]).dtype)
    cuts = np.searchsorted(ordered, keys.starts)
    for part, first, (low, high) in zip(keys.parts, keys.starts, pairwise(cuts), strict=False):
        if high > low:
            rows = torch.from_numpy(ordered[low:high] - first)
            torch.index_select(read_only_tensor(part), 0, rows, out=states[low:high])
    every, scores = np.arange(len(order)), np.empty(ids.shape, np.float32)
    wide = states.float().numpy()
    scores[0, order] = score_pairs(metric, queries, np.zeros_like(every), wide, every)
    return np.where(ids < 0, np.float32(-np.inf), scores)


def score_row(
    metric: Metric, query: NDArray[np.float32], ids: NDArray[np.integer], keys: StatesById
) -> NDArray[np.float32]:
    """Exact similarities of one query (D,) to entries (K,), fastest where these are sorted."""
    every = np.arange(len(ids))
    return score_pairs(
        metric, query[None], np.zeros_like(every), wide_states(keys.gather(ids)), every
    )


def score_pairs(
    metric: Metric,
    queries: NDArray[np.float32],
    rows: NDArray[np.int64],
    states: NDArray[np.float32],
    columns: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Exact similarities of queries[rows] to states[columns], pair by pair.

    Args:
        metric: "l2" or "ip".
        queries: (Q, D), contiguous.
        rows: (P,) numbers of queries.
        states: (N, D), contiguous.
        columns: (P,) numbers of states.

    Returns:
        (P,) float32.
    """
    keep_faiss_to_its_core()
    values = np.empty(len(rows), np.float32)
    match metric:
        case "l2":
            score = _FAISS.pairwise_indexed_L2sqr
        case "ip":
            score = _FAISS.pairwise_indexed_inner_product
        case _:
            assert_never(metric)
    rows, columns = (np.ascontiguousarray(numbers, np.int64) for numbers in (rows, columns))
    arrays = (queries, rows, states, columns, values)
    score(queries.shape[1], len(rows), *(faiss.swig_ptr(array) for array in arrays))
    return from_distance(metric, values)


def wide_states(states: NDArray[Any]) -> NDArray[np.float32]:
    """Stored states in fp32, contiguous: in memory that this thread's next call writes over."""
    if states.dtype == np.float32 and states.flags.c_contiguous:
        return states
    if len(_scratch.memory) < states.size:
        _scratch.memory = np.empty(states.size, np.float32)
    wide = _scratch.memory[: states.size].reshape(states.shape)
    torch.from_numpy(wide).copy_(read_only_tensor(states))
    return wide


def keep_faiss_to_its_core() -> None:
    """In a thread that has one core, FAISS starts no others."""
    if has_one_core() and not _scratch.one_core:
        faiss.omp_set_num_threads(1)  # of this thread
        _scratch.one_core = True


class _Scratch(threading.local):
    """Memory that each thread converts states into: fresh memory would cost as much as the work."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.float32)
        self.one_core = False


_scratch = _Scratch()
_FAISS: Any = faiss  # its type hints do not know all that it has
