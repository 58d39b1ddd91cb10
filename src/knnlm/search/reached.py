"""Which entries reach a bar by their exact scores: collected over all tiles, on all cores.

How a tile is compared with the queries is the business of products.py (floating point),
whole_numbers.py (int8) and few_queries.py; all are `Asked` here. They name candidates, which are
scored while the tile is in the cache, so that no entry is read again later.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search.scores import score_pairs, wide_states
from knnlm.similarity import Metric
from knnlm.workers import core_count, on_all_cores

TILE_ENTRIES = 1 << 11
"""Entries that are converted at once …"""
PRODUCT = (1 << 11, 1 << 9)
"""… and the queries and entries of one product, which stays in the cache until it is read."""
_FEW = 4
"""Where a tile has so many times as many entries as candidates, only these are converted again."""

Floats = NDArray[np.float32]


def tile_starts(keys: Column, size: int) -> range:
    """The first entries of all tiles of so many entries."""
    return range(0, len(keys), size)


class Candidates(NamedTuple):
    """Pairs of a query and an entry of one tile that may reach the query's bar.

    Attributes:
        start: The first entry of the tile.
        states: (N, D) its stored states.
        queries: (P,) numbers of queries.
        columns: (P,) entries of the tile.
        longest: The greatest ‖w-c‖ in the tile.
    """

    start: int
    states: NDArray[Any]
    queries: NDArray[np.int64]
    columns: NDArray[np.int64]
    longest: float

    def scores(self, metric: Metric, queries: Floats) -> Floats:
        """Their exact scores."""
        if len(self.columns) * _FEW < len(self.states):
            some = wide_states(self.states[self.columns])
            return score_pairs(metric, queries, self.queries, some, np.arange(len(some)))
        return score_pairs(metric, queries, self.queries, wide_states(self.states), self.columns)


class Reached(NamedTuple):
    """Pairs of a query and an entry that reaches its bar, sorted by query.

    Attributes:
        ends: (Q,) where the pairs of each query end.
        ids: (P,) the entries.
        scores: (P,) exact.
        crowded: (Q,) queries that too many entries reached; they have no pairs.
        unbounded: (Q,) queries that were not asked; they have no pairs.
        longest: The greatest ‖w-c‖ of all entries.
    """

    ends: NDArray[np.int64]
    ids: NDArray[np.int64]
    scores: Floats
    crowded: NDArray[np.bool_]
    unbounded: NDArray[np.bool_]
    longest: float


class Asked(Protocol):
    """Queries and their bars, made ready for products."""

    @property
    def unbounded(self) -> NDArray[np.bool_]:
        """Queries that are not asked, because no bound holds for their scores."""
        ...

    @property
    def tile(self) -> int:
        """Entries of a tile."""
        ...

    def __len__(self) -> int: ...
    def set_bars(self, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score may be `bars` or more."""
        ...

    def candidates(self, keys: Column, starts: Iterable[int]) -> Iterator[Candidates]:
        """Those of the tiles that begin at `starts`: none is missing that reaches its bar by more
        than `tolerance`."""
        ...

    def withdraw(self, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        ...

    def tolerance(self, bars: NDArray[np.floating[Any]], longest: float) -> NDArray[np.float64]:
        """By how much the score of an entry whose exact score reaches `bars` may be off."""
        ...


class _Part(NamedTuple):
    """Pairs of one tile that reach their bars."""

    queries: NDArray[np.uint16]
    ids: NDArray[np.int64]
    scores: Floats
    longest: float


def entries_above(
    asked: Asked,
    metric: Metric,
    queries: Floats,
    bars: NDArray[np.floating[Any]],
    keys: Column,
    most: int,
) -> Reached:
    """All entries whose exact scores reach the bars of the queries.

    Args:
        asked: The queries, asked for bars that are lower by what a product may be off. Those of
            crowded queries are withdrawn.
        metric: "l2" or "ip".
        queries: (Q, D), at most 65,536.
        bars: (Q,).
        keys: The stored states.
        most: A query that more entries reach is crowded: its pairs are dropped, so that a million
            equal states take no memory.
    """
    starts = iter(tile_starts(keys, asked.tile))  # each thread takes the next one

    def work(_: int) -> list[_Part]:
        parts, count = [], np.zeros(len(asked), np.int64)  # a thread's own: sums would race
        for tile in asked.candidates(keys, starts):
            scores = tile.scores(metric, queries)
            kept = np.flatnonzero(scores >= bars[tile.queries])
            numbers = tile.queries[kept]
            count += np.bincount(numbers, minlength=len(count))
            if len(numbers) and count.max() > most:
                asked.withdraw(np.flatnonzero(count > most))
            ids = tile.columns[kept] + tile.start
            parts.append(_Part(numbers.astype(np.uint16), ids, scores[kept], tile.longest))
        return parts

    parts = [each for some in on_all_cores(work, range(core_count())) for each in some]
    numbers = np.concatenate([each.queries for each in parts])
    count = np.bincount(numbers, minlength=len(asked))
    crowded = count > most
    order = np.argsort(numbers, kind="stable")  # a radix sort: numbers of queries have 16 bits
    if crowded.any():
        order = order[~crowded[numbers[order]]]
    ids = np.concatenate([each.ids for each in parts])[order]
    scores = np.concatenate([each.scores for each in parts])[order]
    ends = np.cumsum(np.where(crowded, 0, count))
    longest = max(each.longest for each in parts)
    return Reached(ends, ids, scores, crowded, asked.unbounded, longest)


def chunks(queries: int, entries: int) -> Iterator[tuple[slice, slice]]:
    """The products that a tile is cut into: rows of queries, rows of entries."""
    rows, columns = PRODUCT
    for row in range(0, queries, rows):
        for column in range(0, entries, columns):
            yield (
                slice(row, min(row + rows, queries)),
                slice(column, min(column + columns, entries)),
            )


def pairs_of(
    mask: NDArray[np.bool_], rows: slice, columns: slice
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns where the flat mask of one product is true.

    That is rare, so eight numbers are looked at at once.
    """
    width, whole = columns.stop - columns.start, len(mask) // 8 * 8
    groups = np.flatnonzero(mask[:whole].view(np.uint64))
    group, bit = np.nonzero(mask[:whole].reshape(-1, 8)[groups])
    rest = np.flatnonzero(mask[whole:]) + whole
    row, column = np.divmod(np.concatenate([8 * groups[group] + bit, rest]), width)
    return row + rows.start, column + columns.start


def joined(
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of several products."""
    rows, columns = zip(*pairs, strict=True)
    return np.concatenate(rows), np.concatenate(columns)
