"""Every entry compared with a few queries, about as fast as the stored states can be read.

A step of generation has one query, or a few: matrix products have nothing to gain there, and what
costs is reading. FAISS's scanner of fp16 codes reads the states where they lie, memory-mapped, and
sums differences (L2) or products in fp32. Two queries or more share each tile while it is in the
processor's cache.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search.faiss_index import faiss_metric
from knnlm.search.neighbors import MISSING, Neighbors, top_k
from knnlm.similarity import Metric, from_distance
from knnlm.workers import core_count, on_all_cores

MOST_QUERIES = 4
"""For more queries products are faster: a scan takes as long for each."""
_TILE_BYTES = 3 << 20
_WORST = np.float32(-np.inf)
FP16 = "<f2"
_FAISS: Any = faiss  # its type hints do not know all that it has

Floats = NDArray[np.float32]


def can_scan(queries: int, keys: Column) -> bool:
    """Whether so many queries are best compared by scanning."""
    return queries <= MOST_QUERIES and keys.type.dtype == FP16


def scan(queries: Floats, keys: Column, count: int, metric: Metric) -> Neighbors:
    """About the nearest entries of each query: by sums in fp32, in no certain order.

    Args:
        queries: (Q, D), contiguous.
        keys: The stored states, in fp16.
        count: How many to keep of each query.
        metric: "l2" or "ip".

    Returns:
        Neighbors (Q, count); missing ones where there are fewer entries.
    """

    def nearest(pieces: Iterator[_Piece]) -> Neighbors:
        # FAISS's heap begins with the worst distance: that of the worst similarity
        values = from_distance(metric, np.full((len(queries), count), _WORST))
        ids = np.full((len(queries), count), MISSING, np.int64)
        with _scanners(queries, metric) as scanners:
            for piece in pieces:
                codes, names = piece.codes, piece.ids
                for row, scanner in enumerate(scanners):
                    scanner.scan_codes(
                        len(names),
                        faiss.swig_ptr(codes),
                        faiss.swig_ptr(names),
                        faiss.swig_ptr(values[row]),
                        faiss.swig_ptr(ids[row]),
                        count,
                    )
        return Neighbors(ids, from_distance(metric, values))

    edges = np.linspace(0, len(keys), core_count() + 1).astype(int).tolist()
    shares = on_all_cores(lambda ends: nearest(_pieces(keys, *ends)), list(pairwise(edges)))
    return top_k(
        np.concatenate([share.ids for share in shares], axis=1),
        np.concatenate([share.scores for share in shares], axis=1),
        count,
    )


def scan_above(
    query: Floats, keys: Column, bar: float, metric: Metric
) -> Iterator[NDArray[np.int64]]:
    """The ids of all entries whose score reaches a bar, a tile at a time.

    Args:
        query: (D,).
        keys: The stored states, in fp16.
        bar: The least score.
        metric: "l2" or "ip".
    """
    # FAISS keeps what is strictly better than the radius
    below = np.nextafter(np.float32(bar), np.float32(-np.inf))
    radius = float(from_distance(metric, below))
    with _scanners(query[None], metric) as (scanner,):
        for piece in _pieces(keys, 0, len(keys)):
            ids, _ = _in_range(scanner, piece, radius)
            if len(ids):
                yield np.sort(ids)


class _Piece(NamedTuple):
    """Some stored states of one part, and the id of the first of them."""

    states: NDArray[Any]
    first: int

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The states as FAISS takes them, where they lie."""
        return np.asarray(self.states).reshape(-1).view(np.uint8)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The entries that they belong to."""
        return np.arange(self.first, self.first + len(self.states))


def _in_range(scanner: Any, piece: _Piece, radius: float) -> tuple[NDArray[np.int64], Floats]:
    """Ids and FAISS's values of the states that are strictly better than a radius, in order."""
    result = faiss.RangeSearchResult(1)
    partial = _FAISS.RangeSearchPartialResult(result)
    codes, names = piece.codes, piece.ids
    scanner.scan_codes_range(
        len(names), faiss.swig_ptr(codes), faiss.swig_ptr(names), radius, partial.new_result(0)
    )
    partial.finalize()
    count = int(faiss.rev_swig_ptr(result.lims, 2)[1])
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    values = faiss.rev_swig_ptr(result.distances, count).copy()
    return faiss.rev_swig_ptr(result.labels, count).copy(), values


@functools.cache
def _free_scanners(width: int, metric: Metric) -> "SimpleQueue[tuple[Any, Any]]":
    """Scanners that nobody uses: FAISS's bindings never free one, so they are used again."""
    return SimpleQueue()


@contextmanager
def _scanners(queries: Floats, metric: Metric) -> Iterator[list[Any]]:
    """A scanner of fp16 codes for each query."""
    free, width = _free_scanners(queries.shape[1], metric), queries.shape[1]
    taken = []
    for query in queries:
        try:
            quantizer, scanner = free.get_nowait()
        except Empty:
            quantizer = _FAISS.ScalarQuantizer(width, _FAISS.ScalarQuantizer.QT_fp16)
            scanner = quantizer.select_InvertedListScanner(faiss_metric(metric), None, False, None)
        scanner.set_query(faiss.swig_ptr(query))
        scanner.set_list(0, 0.0)
        taken.append((quantizer, scanner))
    try:
        yield [scanner for _, scanner in taken]
    finally:
        for each in taken:
            free.put(each)


def _pieces(keys: Column, start: int, stop: int) -> Iterator[_Piece]:
    """Entries start … stop-1 in tiles that fit the cache, none of them across two parts."""
    size = max(1, _TILE_BYTES // (2 * keys.type.width))
    for part, begin in zip(keys.parts, keys.starts[:-1].tolist(), strict=True):
        low, high = max(start, begin), min(stop, begin + len(part))
        for first in range(low, high, size):
            last = min(high, first + size)
            yield _Piece(part[first - begin : last - begin], first)
