"""What a retrieval says of itself."""

import pytest

from knnlm.errors import UsageError
from knnlm.search.retrieval import Retrieval


def test_exact_search_has_exact_scores() -> None:
    retrieval = Retrieval(score="index")
    assert retrieval.exact
    assert retrieval.score == "exact"
    assert not Retrieval(index="att-l2-Flat", score="index").exact


@pytest.mark.parametrize("index", [None, "att-l2-Flat-probe32"])
@pytest.mark.parametrize("score", ["index", "exact"])
def test_json_there_and_back(index: str | None, score: str) -> None:
    retrieval = Retrieval(key="ffn", metric="ip", index=index, score=score, k=7)  # type: ignore[arg-type]
    assert Retrieval.from_json(retrieval.as_json()) == retrieval
    assert retrieval.as_json()["mask"] == (index or "exact")


@pytest.mark.parametrize(("earlier", "score"), [("search", "index"), ("real", "exact")])
def test_json_of_earlier_versions_is_read(earlier: str, score: str) -> None:
    fields = {"key": "att", "metric": "l2", "mask": "some", "score": earlier, "k": 9}
    assert Retrieval.from_json(fields) == Retrieval(index="some", score=score, k=9)  # type: ignore[arg-type]


def test_an_unknown_score_is_refused() -> None:
    with pytest.raises(UsageError, match="real"):
        Retrieval(score="real")  # type: ignore[arg-type]
