"""Neighbours of stored rows among the rows of other documents: what a store would have said had it not seen this one.

A stored row is its own nearest neighbour, and its document repeats itself; dropping "the first hit" mends neither.
The rows of a document lie together, so they are left out by id: the search sees what is before them and what is after.
Knows nothing of tokens.
"""

from collections.abc import Iterator

import numpy as np

from knnlm.search.exact import exact_search
from knnlm.search.neighbors import Neighbors
from knnlm.similarity import Metric
from knnlm.states.store import Store
from knnlm.states.table import Column

_QUERIES = 1 << 12


def neighbors_elsewhere(store: Store, key: str, k: int, metric: Metric) -> Iterator[tuple[int, Neighbors]]:
    """(first row, neighbours of it and the rows after it), in order, every row of the store once; exact."""
    column = store.key(key)
    documents = store.table.columns["document"].all()
    edges = np.flatnonzero(np.diff(documents)) + 1
    for start, stop in zip([0, *edges], [*edges, store.rows], strict=True):
        rest = without(column, int(start), int(stop))
        for first in range(int(start), int(stop), _QUERIES):
            queries = column.read(first, min(first + _QUERIES, int(stop)))
            found = exact_search(queries, rest, k, metric)
            ids = np.where(found.ids >= start, found.ids + (stop - start), found.ids)
            yield first, Neighbors(ids, found.scores)


def without(column: Column, start: int, stop: int) -> Column:
    """The column without rows start … stop-1; nothing is copied."""
    parts = []
    for part, begin in zip(column.parts, column.starts[:-1], strict=True):
        parts += [part[: max(start - begin, 0)], part[max(stop - begin, 0) :]]
    return Column([p for p in parts if len(p)], column.type)
