"""What is searched and how neighbors are scored, chosen apart.

Which entries are neighbors (an index, or exact search) and which scores they vote with (the index's
own, or exact ones) are two symbols of the equation, so they are two fields: the paper's
{FAISS, real} mask × {FAISS, real} score is `index` × `score` here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from knnlm import defaults
from knnlm.datastore import Entries
from knnlm.errors import UsageError, unknown
from knnlm.ranges import check_k
from knnlm.search.index_records import index_manifest
from knnlm.similarity import Metric
from knnlm.stored_fields import Key, MetricName, NeighborCount
from knnlm.typed_json import FieldError, from_json

EXACT = "exact"
"""What stands for exact search where a name is needed: in JSON, in arguments, in file names."""
Score = Literal["index", "exact"]


class RetrievalFields(TypedDict):
    """A retrieval in JSON, also as earlier versions spelled it."""

    key: Key
    metric: MetricName
    mask: str
    score: Literal["index", "exact", "search", "real"]
    k: NeighborCount


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """Which neighbors are found and how they are scored.

    Attributes:
        key: Which hidden states are compared: "att" or "ffn".
        metric: "l2" or "ip".
        index: The name of an index of the datastore; None: exact search.
        score: "index": the scores that the index itself returned; "exact": similarities recomputed
            from the stored states. Exact search always has exact scores.
        k: Neighbors of each query.

    Raises:
        UsageError: k is out of range, or the score is unknown.

    Example:
        >>> Retrieval(key="att", metric="l2", k=64).exact
        True
    """

    key: str = "att"
    metric: Metric = "l2"
    index: str | None = None
    score: Score = "exact"
    k: int = defaults.K

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.score not in ("index", "exact"):
            raise unknown("score", self.score, ("index", "exact"))
        if self.exact:
            object.__setattr__(self, "score", "exact")

    @property
    def exact(self) -> bool:
        """Whether every entry is compared, without an index."""
        return self.index is None

    @property
    def search_name(self) -> str:
        """The name of the index, or "exact": for JSON, file names and people."""
        return self.index or EXACT

    def __str__(self) -> str:
        search = "exact search" if self.exact else f"index {self.index}, {self.score} scores"
        return f"{self.key} {self.metric}, {search}, k {self.k}"

    def as_json(self) -> dict[str, Any]:
        """Its fields in JSON, where `mask` is "exact" or the name of the index."""
        return {
            "key": self.key,
            "metric": self.metric,
            "mask": self.search_name,
            "score": self.score,
            "k": self.k,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Retrieval":
        """A retrieval from the fields of `as_json`, also as earlier versions spelled them.

        Args:
            fields: key, metric, mask, score and k.

        Returns:
            The retrieval.

        Raises:
            UsageError: One of them is missing, or cannot be.
        """
        try:
            from_json(RetrievalFields, fields)
        except FieldError as error:
            raise UsageError(f"this is no retrieval ({error}): give what `as_json` gave") from error
        score = {"search": "index", "real": "exact"}.get(fields["score"], fields["score"])
        index = None if fields["mask"] == EXACT else fields["mask"]
        return cls(
            key=fields["key"], metric=fields["metric"], index=index, score=score, k=fields["k"]
        )


def check_index(store: Entries, retrieval: Retrieval) -> dict[str, Any] | None:
    """Check that the index that a retrieval names exists and fits it.

    Returns:
        The manifest of the index; None for exact search.

    Raises:
        UsageError: The index is of another key or metric.
        KnnlmError: There is no such index, or the datastore has changed since it was built.
    """
    if retrieval.index is None:
        return None
    manifest = index_manifest(store, retrieval.index)
    if (manifest["key"], manifest["metric"]) != (retrieval.key, retrieval.metric):
        raise UsageError(
            f"index {retrieval.index} is for {manifest['key']} states and metric "
            f"{manifest['metric']}, not {retrieval.key} and {retrieval.metric}: name an index of "
            "that kind"
        )
    return manifest
