"""A retrieval opened: the function from hidden states to their neighbors."""

from typing import Any, Protocol

from numpy.typing import NDArray

from knnlm.datastore import Entries
from knnlm.search.exact import exact_search, with_exact_scores
from knnlm.search.index import open_index
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import Retrieval, check_index


class Search(Protocol):
    """From hidden states (Q, D) to their neighbors (Q, k)."""

    def __call__(self, states: NDArray[Any], k: int | None = None) -> Neighbors:
        """The k nearest entries of each state; None is the k of the retrieval."""
        ...


def open_search(store: Entries, retrieval: Retrieval) -> Search:
    """The function from hidden states to neighbors that a retrieval describes.

    Stored states are verified now, and not in the middle of a text, if the search reads them.

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
    keys, metric = store.key(retrieval.key), retrieval.metric
    if retrieval.score == "exact":
        keys.verify()
    index = None if retrieval.index is None else open_index(store, retrieval.index)

    def search(states: NDArray[Any], k: int | None = None) -> Neighbors:
        k = retrieval.k if k is None else k
        if index is None:
            return exact_search(states, keys, k, metric)
        near = index.search(states, k)
        if retrieval.score == "index" or index.refined:
            return near
        return with_exact_scores(near, states, keys, metric)

    return search
