"""Neighbours of stored rows among the rows of other documents: what a store would have said had it
not seen this one.

A stored row is its own nearest neighbour, and its document repeats itself; dropping "the first hit"
mends neither. The rows of a document lie together, so a long document is left out by id: the search
sees what is before it and what is after. Short documents are searched for together, with as many
more neighbours as the longest of them has rows, and each row's own document is struck out
afterwards. Knows nothing of tokens."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.datastore.table import Column
from knnlm.search.exact import exact_search
from knnlm.search.neighbors import Neighbors
from knnlm.similarity import Metric

_QUERIES = 1 << 12
_SHORT = 1 << 9


def neighbors_in_other_documents(
    store: Entries, key: str, k: int, metric: Metric, start: int = 0
) -> Iterator[tuple[int, Neighbors]]:
    """(first row, neighbours of it and the rows after it), in order, every row from `start` on
    once; exact."""
    column = store.key(key)
    documents = store.table.columns["document"].all()
    edges = [0, *(np.flatnonzero(np.diff(documents)) + 1).tolist(), store.count]
    for group in _groups(edges):
        begin, end = group[0], group[-1]
        for first in range(max(begin, start), end, _QUERIES):
            queries = column.read(first, min(first + _QUERIES, end))
            if len(group) == 2:
                found = exact_search(queries, without(column, begin, end), k, metric)
                ids = np.where(found.ids >= begin, found.ids + (end - begin), found.ids)
                yield first, Neighbors(ids, found.scores)
            else:
                found = exact_search(queries, column, k + _longest(group), metric)
                yield first, _struck(found, documents, documents[first : first + len(queries)], k)


def _groups(edges: list[int]) -> Iterator[list[int]]:
    """Edges of documents that are searched for together: a long one alone, short ones up to a block
    of queries."""
    group = edges[:1]
    for edge in edges[1:]:
        longer = [*group, edge]
        if len(group) > 1 and (_longest(longer) > _SHORT or edge - group[0] > _QUERIES):
            yield group
            longer = [group[-1], edge]
        group = longer
    yield group


def _longest(edges: list[int]) -> int:
    return max(b - a for a, b in pairwise(edges))


def _struck(
    found: Neighbors, documents: NDArray[np.integer], own: NDArray[np.integer], k: int
) -> Neighbors:
    """The k nearest that are not in a query's own document; a stable sort keeps their order."""
    strike = (documents[found.ids] == own[:, None]) | (found.ids < 0)
    order = np.argsort(strike, axis=1, kind="stable")[:, :k]
    gone = np.take_along_axis(strike, order, axis=1)
    ids = np.where(gone, -1, np.take_along_axis(found.ids, order, axis=1))
    return Neighbors(
        ids, np.where(gone, np.float32(-np.inf), np.take_along_axis(found.scores, order, axis=1))
    )


def without(column: Column, start: int, stop: int) -> Column:
    """The column without rows start … stop-1; nothing is copied."""
    parts = []
    for part, begin in zip(column.parts, column.starts[:-1], strict=True):
        parts += [part[: max(start - begin, 0)], part[max(stop - begin, 0) :]]
    return Column([p for p in parts if len(p)], column.type)
