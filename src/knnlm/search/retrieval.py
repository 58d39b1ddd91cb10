"""What is retrieved and how it is scored, chosen apart; and the function that does it.

A search takes states (Q, D) and returns their neighbours. Knows nothing of where queries come from
or of tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError, unknown
from knnlm.search.exact import check_k, exact_search
from knnlm.search.index import index_manifest, open_index
from knnlm.search.neighbors import Neighbors, in_order
from knnlm.similarity import Metric, rescore

EXACT = "exact"
Score = Literal["search", "real"]
Search = Callable[[NDArray[Any]], Neighbors]


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """What is retrieved and how it is scored: mask and score are chosen apart."""

    key: str = "att"
    metric: Metric = "l2"
    mask: str = EXACT
    """"exact", or the name of an index of the store."""
    score: Score = "real"
    """"real" similarities of the retrieved rows, or those that the "search" itself returned."""
    k: int = 1024

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.score not in ("search", "real"):
            raise unknown("score", self.score, ("search", "real"))
        if self.mask == EXACT and self.score == "search":
            object.__setattr__(self, "score", "real")  # exact search returns real scores


def check_index(store: Entries, what: Retrieval) -> dict[str, Any] | None:
    """The manifest of the index that `what` names (None for exact search), after checking that it
    fits."""
    if what.mask == EXACT:
        return None
    index = index_manifest(store, what.mask)
    if (index["key"], index["metric"]) != (what.key, what.metric):
        raise UsageError(
            f"index {what.mask} is for {index['key']} states and metric {index['metric']}, not "
            f"{what.key} and "
            f"{what.metric}: name an index of that kind"
        )
    return index


def open_search(store: Entries, what: Retrieval) -> Search:
    """The search that `what` describes. Stored states are read, and so verified, only where it
    needs them."""
    check_index(store, what)
    column = store.key(what.key)
    if what.mask != EXACT and what.score == "search":
        index = open_index(store, what.mask)
        return lambda states: index.search(states, what.k)
    store.verify(what.key)
    if what.mask == EXACT:
        return lambda states: exact_search(states, column, what.k, what.metric)
    index = open_index(store, what.mask)

    def masked_then_rescored(states: NDArray[Any]) -> Neighbors:
        near = index.search(states, what.k)
        return in_order(near.ids, rescore(what.metric, states, near.ids, column), what.k)

    return masked_then_rescored
