"""A retrieval opened: the function from hidden states to their neighbors."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from knnlm.datastore import Entries
from knnlm.search.exact import exact_search, with_exact_scores
from knnlm.search.index import open_index
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import Retrieval, check_index

Search = Callable[[NDArray[Any]], Neighbors]
"""From hidden states (Q, D) to their neighbors (Q, k)."""


def open_search(store: Entries, retrieval: Retrieval) -> Search:
    """The function from hidden states to neighbors that a retrieval describes.

    Stored states are read, and so verified, only where the search needs them.

    Args:
        store: The datastore that is searched.
        retrieval: How.

    Raises:
        KnnlmError: The index is missing, does not fit, or is damaged.

    Example:
        >>> search = open_search(store, Retrieval(key="att", k=8))
        >>> neighbors = search(states)  # states (Q, D), neighbors (Q, 8)
    """
    check_index(store, retrieval)
    keys, metric, k = store.key(retrieval.key), retrieval.metric, retrieval.k
    if retrieval.score == "exact":
        store.verify(retrieval.key)
    if retrieval.index is None:
        return lambda states: exact_search(states, keys, k, metric)
    index = open_index(store, retrieval.index)
    if retrieval.score == "index":
        return lambda states: index.search(states, k)
    return lambda states: with_exact_scores(index.search(states, k), states, keys, metric)
