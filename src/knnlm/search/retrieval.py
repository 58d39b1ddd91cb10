"""What is retrieved and how it is scored, chosen apart; and the function that does it.

A search takes states (Q, D) and returns their neighbours. Knows nothing of where queries come from
or of tokens."""

from collections.abc import Callable, Mapping
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
"""What stands for exact search where a name is needed: in JSON, in arguments, in file names."""
Score = Literal["index", "exact"]
Search = Callable[[NDArray[Any]], Neighbors]


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """Which neighbors are found and how they are scored: index and score are chosen apart."""

    key: str = "att"
    metric: Metric = "l2"
    index: str | None = None
    """The name of an index of the datastore; None: exact search."""
    score: Score = "exact"
    """"index": the scores that the index returned; "exact": recomputed from the stored states."""
    k: int = 1024

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.score not in ("index", "exact"):
            raise unknown("score", self.score, ("index", "exact"))
        if self.exact and self.score == "index":
            object.__setattr__(self, "score", "exact")  # exact search has exact scores

    @property
    def exact(self) -> bool:
        """Whether every entry is compared, without an index."""
        return self.index is None

    @property
    def search_name(self) -> str:
        """ "exact" or the name of the index: for JSON, file names and people."""
        return self.index or EXACT

    def as_json(self) -> dict[str, Any]:
        """The fields of JSON; `mask` is "exact" or the name of the index."""
        return {
            "key": self.key,
            "metric": self.metric,
            "mask": self.search_name,
            "score": self.score,
            "k": self.k,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Retrieval":
        """A retrieval from the fields of `as_json`, also as earlier versions spelled them."""
        score = {"search": "index", "real": "exact"}.get(fields["score"], fields["score"])
        index = None if fields["mask"] == EXACT else fields["mask"]
        return cls(
            key=fields["key"], metric=fields["metric"], index=index, score=score, k=fields["k"]
        )


def check_index(store: Entries, what: Retrieval) -> dict[str, Any] | None:
    """The manifest of the index that `what` names (None for exact search), after checking that it
    fits."""
    if what.index is None:
        return None
    index = index_manifest(store, what.index)
    if (index["key"], index["metric"]) != (what.key, what.metric):
        raise UsageError(
            f"index {what.index} is for {index['key']} states and metric {index['metric']}, not "
            f"{what.key} and "
            f"{what.metric}: name an index of that kind"
        )
    return index


def open_search(store: Entries, what: Retrieval) -> Search:
    """The search that `what` describes. Stored states are read, and so verified, only where it
    needs them."""
    check_index(store, what)
    column = store.key(what.key)
    if what.index is not None and what.score == "index":
        index = open_index(store, what.index)
        return lambda states: index.search(states, what.k)
    store.verify(what.key)
    if what.index is None:
        return lambda states: exact_search(states, column, what.k, what.metric)
    index = open_index(store, what.index)

    def search_and_rescore(states: NDArray[Any]) -> Neighbors:
        near = index.search(states, what.k)
        return in_order(near.ids, rescore(what.metric, states, near.ids, column), what.k)

    return search_and_rescore
