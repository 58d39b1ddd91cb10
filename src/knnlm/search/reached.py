"""Which entries may score as high as a bar: collected over all tiles, on all cores.

How a tile is compared with the queries is the business of products.py (floating point) and
whole_numbers.py (int8); both are `Asked` here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.workers import core_count, on_all_cores

TILE_ENTRIES = 1 << 11
"""Entries that are converted at once …"""
PRODUCT = (1 << 11, 1 << 9)
"""… and the queries and entries of one product, which stays in the cache until it is read."""

Floats = NDArray[np.float32]


class Pairs(NamedTuple):
    """Pairs of a query and an entry of one tile that may reach the query's bar.

    Attributes:
        queries: (P,) numbers of queries.
        ids: (P,) the entries.
        above: (P,) by how much the score exceeds the bar at most, or thereabouts.
        longest: The greatest ‖w-c‖ in the tile.
    """

    queries: NDArray[np.integer[Any]]
    ids: NDArray[np.int64]
    above: Floats
    longest: float


class Reached(NamedTuple):
    """Pairs of a query and an entry that may reach its bar, sorted by query.

    Attributes:
        ends: (Q,) where the pairs of each query end.
        ids: (P,) the entries.
        above: (P,) as in `Pairs`.
        crowded: (Q,) queries that too many entries reached, or that have no bound; they have no
            pairs.
        longest: The greatest ‖w-c‖ of all entries.
    """

    ends: NDArray[np.int64]
    ids: NDArray[np.int64]
    above: Floats
    crowded: NDArray[np.bool_]
    longest: float


class Asked(Protocol):
    """Queries and their bars, made ready for products."""

    @property
    def unbounded(self) -> NDArray[np.bool_]:
        """Queries that are not asked, because no bound holds for their scores."""
        ...

    def __len__(self) -> int: ...
    def set_bars(self, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score may be `bars` or more."""
        ...

    def pairs(self, keys: Column, starts: Iterable[int]) -> Iterator[Pairs]:
        """Pairs of the tiles that begin at `starts`: none is missing that reaches its bar by more
        than `tolerance`."""
        ...

    def withdraw(self, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        ...

    def tolerance(self, bars: NDArray[np.floating[Any]], longest: float) -> NDArray[np.float64]:
        """By how much the score of an entry whose exact score reaches `bars` may be off."""
        ...

    def upper(self, above: Floats) -> Floats:
        """`above`, raised by what its own rounding may have taken from it."""
        ...


def entries_above(asked: Asked, keys: Column, most: int) -> Reached:
    """All entries that may reach the bars of the queries.

    Args:
        asked: At most 65,536 queries with their bars; those of crowded queries are withdrawn.
        keys: The stored states.
        most: A query that more entries reach is crowded: its pairs are dropped, so that a million
            equal states take no memory.
    """
    starts = iter(range(0, len(keys), TILE_ENTRIES))  # each thread takes the next one

    def work(_: int) -> list[Pairs]:
        pairs, count = [], np.zeros(len(asked), np.int64)  # a thread's own: sums would race
        for each in asked.pairs(keys, starts):
            count += np.bincount(each.queries, minlength=len(count))
            if len(each.queries) and count.max() > most:
                asked.withdraw(np.flatnonzero(count > most))
            pairs.append(each._replace(queries=each.queries.astype(np.uint16)))
        return pairs

    pairs = [each for some in on_all_cores(work, range(core_count())) for each in some]
    queries = np.concatenate([each.queries for each in pairs])
    count = np.bincount(queries, minlength=len(asked))
    crowded = (count > most) | asked.unbounded
    order = np.argsort(queries, kind="stable")  # a radix sort: numbers of queries have 16 bits
    if crowded.any():
        order = order[~crowded[queries[order]]]
    ids = np.concatenate([each.ids for each in pairs])[order]
    above = np.concatenate([each.above for each in pairs])[order]
    ends = np.cumsum(np.where(crowded, 0, count))
    return Reached(ends, ids, above, crowded, max(each.longest for each in pairs))


def chunks(queries: int, entries: int) -> Iterator[tuple[slice, slice]]:
    """The products that a tile is cut into: rows of queries, rows of entries."""
    rows, columns = PRODUCT
    for row in range(0, queries, rows):
        for column in range(0, entries, columns):
            yield (
                slice(row, min(row + rows, queries)),
                slice(column, min(column + columns, entries)),
            )
