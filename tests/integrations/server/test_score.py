"""/api/score: a text token by token, and the votes from which the page computes everything."""

import itertools
import math
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from knnlm import KNNLM, Datastore
from knnlm.integrations.server.app import build_app
from knnlm.integrations.server.scoring import enough_without_any
from tests.conftest import prose
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import (
    DOCUMENTS,
    K,
    options,
    running,
    write_documents,
)

TEXT = "number 3 has a sentence of its own. the cat looked at a mat"
server = pytest.mark.pipeline


@server
def test_the_numbers_are_those_of_explain(url: str, knnlm_model: KNNLM) -> None:
    found = ask(url, "/api/score", {"text": TEXT, "neighbors": 5}).json
    wanted = knnlm_model.explain(TEXT).tokens
    assert [token["text"] for token in found["tokens"]] == [token.text for token in wanted]
    for token, known in zip(found["tokens"], wanted, strict=True):
        assert token["lm_logprob"] == pytest.approx(known.lm_logprob, abs=1e-5)
        assert token["logprob"] == pytest.approx(known.mixed_logprob, abs=1e-5)
        if token["component_logprob"] is None:
            assert known.component_logprob == -math.inf
        else:
            assert token["component_logprob"] == pytest.approx(known.component_logprob, abs=1e-5)
        assert len(token["neighbors"]) == len(known.neighbors) == 5
        for neighbor, same in zip(token["neighbors"], known.neighbors, strict=True):
            assert neighbor["document"] == same.document
            assert neighbor["text"] == same.token
            assert neighbor["before"] == same.before
            assert neighbor["weight"] == pytest.approx(same.weight, rel=1e-5)
            assert neighbor["is_target"] == same.is_target


@server
def test_ranks_and_tops_agree(url: str) -> None:
    for token in ask(url, "/api/score", {"text": TEXT, "top": 50}).json["tokens"]:
        ids = [each["id"] for each in token["top"]]
        logs = [each["logprob"] for each in token["top"]]
        assert logs == sorted(logs, reverse=True)
        if token["id"] in ids:
            assert token["rank"] == 1 + sum(log > token["logprob"] for log in logs)
        else:
            assert token["rank"] > 50


@server
def test_the_passage_of_a_neighbor_is_where_it_says(url: str, server_store: Path) -> None:
    for token in ask(url, "/api/score", {"text": TEXT}).json["tokens"][:8]:
        for neighbor in token["neighbors"]:
            document = (server_store.parent / "docs" / neighbor["document"]).read_text()
            assert neighbor["before"] + neighbor["text"] + neighbor["after"] in document
    entries = [neighbor["entry"] for neighbor in token["neighbors"]]
    again = ask(url, "/api/entries", {"entries": entries}).json["entries"]
    assert [each["before"] for each in again] == [n["before"] for n in token["neighbors"]]


@server
def test_a_text_longer_than_the_model_reads_is_read_in_windows(
    url: str, knnlm_model: KNNLM, tmp_path: Path
) -> None:
    text = prose(77, 25)
    (tmp_path / "long.txt").write_text(text)
    wanted = knnlm_model.evaluate(tmp_path / "long.txt")
    assert wanted.tokens > 256
    tokens = ask(url, "/api/score", {"text": text}).json["tokens"]
    assert len(tokens) == wanted.tokens
    mean = sum(token["logprob"] for token in tokens) / len(tokens)
    assert math.exp(-mean) == pytest.approx(wanted.interp_ppl, rel=1e-5)


def mixed_from_votes(
    answer: dict[str, Any], *, lam: float, tau: float, k: int, without: Collection[int] = ()
) -> list[float]:
    """log P as the page computes it."""
    logs = []
    for token, position in zip(answer["tokens"], answer["votes"]["positions"], strict=True):
        kept = [i for i, number in enumerate(position["documents"]) if number not in without][:k]
        scores = np.array([position["scores"][i] for i in kept])
        votes = np.exp((scores - scores.max()) / tau)
        hits = [position["distinct"][position["which"][i]] == token["id"] for i in kept]
        knn = float(votes[hits].sum() / votes.sum())
        logs.append(math.log((1 - lam) * math.exp(token["lm_logprob"]) + lam * knn))
    return logs


@server
@pytest.mark.parametrize(
    ("lam", "tau", "k"), [(0.4, None, K), (0.9, 0.3, K), (0.1, 5.0, 3), (0.7, None, 1)]
)
def test_p_can_be_computed_from_the_votes(url: str, lam: float, tau: float | None, k: int) -> None:
    answer = ask(url, "/api/score", {"text": TEXT, "votes": True}).json
    tau = answer["settings"]["tau"] if tau is None else tau
    knn = {"lambda": lam, "tau": tau, "k": k}
    wanted = ask(url, "/api/score", {"text": TEXT, "knn": knn}).json["tokens"]
    found = mixed_from_votes(answer, lam=lam, tau=tau, k=k)
    np.testing.assert_allclose(found, [token["logprob"] for token in wanted], atol=1e-4)


@server
def test_votes_of_an_index_that_are_scored_again_agree_too(
    server_store: Path, tmp_path: Path
) -> None:
    """More of them would come in another order."""
    store = Datastore.open(shutil.copytree(server_store, tmp_path / "store"))
    index = store.build_index(key="att", factory="IVF8,PQ4x4", nprobe=4, recall=0)
    model = KNNLM(store, key="att", index=index.name, score="exact", k=8, lam=0.4, tau=1.0)
    with running(build_app(model, options())) as address:
        answer = ask(address, "/api/score", {"text": TEXT, "votes": True}).json
        wanted = [token["logprob"] for token in answer["tokens"]]
        found = mixed_from_votes(answer, lam=0.4, tau=1.0, k=8)
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@server
@pytest.mark.parametrize(
    "left_out", [["03.txt"], ["00.txt"], [f"{DOCUMENTS - 1:02}.txt"], ["03.txt", "05.txt"]]
)
def test_without_documents_it_is_as_if_they_were_never_stored(
    url: str, tmp_path: Path, server_model: Path, server_store: Path, left_out: list[str]
) -> None:
    answer = ask(url, "/api/score", {"text": TEXT, "votes": True}).json
    tau = answer["settings"]["tau"]
    others = write_documents(tmp_path / "docs", without=left_out)
    store = Datastore.build(server_model, others, tmp_path / "store")
    wanted = KNNLM(store, lam=0.4, tau=tau, k=K).explain(TEXT).tokens
    numbers = [answer["votes"]["documents"].index(name) for name in left_out]
    found = mixed_from_votes(answer, lam=0.4, tau=tau, k=K, without=numbers)
    np.testing.assert_allclose(found, [token.mixed_logprob for token in wanted], atol=1e-4)


@given(
    hnp.arrays(np.int32, st.integers(0, 60), elements=st.integers(0, 5)),
    st.integers(1, 20),
    st.integers(1, 3),
)
def test_enough_neighbors_are_sent_to_leave_any_documents_out(
    documents: np.ndarray, k: int, left_out: int
) -> None:
    def fewest_left(length: int) -> int:
        groups = itertools.combinations(range(6), left_out)
        return min(int((~np.isin(documents[:length], group)).sum()) for group in groups)

    length = enough_without_any(documents, k, left_out)
    assert length == len(documents) or fewest_left(length) >= k
    if length:
        assert length <= k or fewest_left(length - 1) < k


@server
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "give either a text or its tokens"),
        ({"text": "a", "tokens": [1]}, "give either a text or its tokens"),
        ({"text": ""}, "two tokens or more"),
        ({"text": "the cat", "start": 90}, "two tokens or more"),
        ({"text": "cat " * 3000}, "are scored at most: shorten it"),
        ({"tokens": [1, 99_999]}, "outside the model's vocabulary"),
        ({"tokens": [True, True]}, "tokens: a number is needed, not true or false"),
        ({"text": "a cat", "knn": {"k": K + 1}}, f"choose 1 to {K}"),
        ({"text": "a cat", "knn": {"component": "cluster"}}, "unknown component 'cluster'"),
        ({"text": "a cat", "neighbors": 51}, "less than or equal to 50"),
        ({"text": "\ud800"}, "valid string"),
    ],
)
def test_what_cannot_be_scored_gets_a_sentence(url: str, body: Any, words: str) -> None:
    answer = ask(url, "/api/score", body)
    assert answer.status == 400
    assert words in answer.message


@server
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script> & \"quotes\" 'too'",
        "\u202eright to left\u202c שלום עולם",
        "👩‍👩‍👧‍👦 emoji 🎉",
        "a\x00b\x07c\x1b[31m",
        "x" * 90,
        "\n\n\t \n",
    ],
)
def test_any_text_is_scored_and_comes_back_whole(url: str, text: str) -> None:
    answer = ask(url, "/api/score", {"text": text})
    found = answer.json
    shown = "".join(token["text"] for token in found["tokens"])
    assert text in "".join(found["prompt"]) + shown or "\N{REPLACEMENT CHARACTER}" in shown
