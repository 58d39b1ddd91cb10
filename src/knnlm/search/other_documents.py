"""Neighbors of entries among the entries of other documents: what a datastore would have retrieved
had it not seen this one.

An entry is its own nearest neighbor, and its document repeats itself; dropping "the first hit"
fixes neither. The entries of a document lie together, so a long document is left out by id: the
search sees what is before it and what is after. Short documents are searched for together, with as
many more neighbors as the longest of them has entries, and each entry's own document is removed
afterwards.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column, Entries
from knnlm.search.exact import exact_search
from knnlm.search.neighbors import MISSING, Neighbors
from knnlm.similarity import Metric

_QUERIES = 1 << 12
"""Entries searched for at once."""
_SHORT = 1 << 9
"""A document of at most so many entries is searched for together with others."""


def neighbors_in_other_documents(
    store: Entries, key: str, k: int, metric: Metric, start: int = 0
) -> Iterator[tuple[int, Neighbors]]:
    """Exact neighbors of every entry among the entries of other documents, block by block.

    Args:
        store: The datastore; its entries are queries and neighbors.
        key: Which states: "att" or "ffn".
        k: Neighbors of each entry.
        metric: "l2" or "ip".
        start: The first entry to search for, so that an interrupted pass can resume.

    Yields:
        (id of the first entry of the block, neighbors of the block), in the order of ids.

    Example:
        >>> for first, neighbors in neighbors_in_other_documents(store, "att", 8, "l2"):
        ...     print(first, neighbors.ids.shape)
    """
    keys = store.key(key)
    documents = store.document_numbers
    edges = [0, *(np.flatnonzero(np.diff(documents)) + 1).tolist(), store.count]
    for group in _groups(edges):
        begin, end = group[0], group[-1]
        for first in range(max(begin, start), end, _QUERIES):
            queries = keys.read(first, min(first + _QUERIES, end))
            if len(group) == 2:
                near = exact_search(queries, without(keys, begin, end), k, metric)
                ids = np.where(near.ids >= begin, near.ids + (end - begin), near.ids)
                yield first, Neighbors(ids, near.scores)
            else:
                near = exact_search(queries, keys, k + _longest(group), metric)
                own = documents[first : first + len(queries)]
                yield first, _without_own_document(near, documents, own, k)


def without(column: Column, start: int, stop: int) -> Column:
    """A column without rows start … stop-1; nothing is copied."""
    parts = []
    for part, begin in zip(column.parts, column.starts[:-1], strict=True):
        parts += [part[: max(start - begin, 0)], part[max(stop - begin, 0) :]]
    return Column([part for part in parts if len(part)], column.type)


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
    """Entries of the longest document between these edges."""
    return max(end - begin for begin, end in pairwise(edges))


def _without_own_document(
    near: Neighbors, documents: NDArray[np.integer], own: NDArray[np.integer], k: int
) -> Neighbors:
    """The k nearest that are not in a query's own document; a stable sort keeps their order."""
    removed = (documents[near.ids] == own[:, None]) | (near.ids < 0)
    order = np.argsort(removed, axis=1, kind="stable")[:, :k]
    missing = np.take_along_axis(removed, order, axis=1)
    ids = np.take_along_axis(near.ids, order, axis=1)
    scores = np.take_along_axis(near.scores, order, axis=1)
    return Neighbors(
        np.where(missing, MISSING, ids), np.where(missing, np.float32(-np.inf), scores)
    )
