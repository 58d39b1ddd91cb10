"""The kNN component: the dense equation, live or from the cache, with or without an index."""

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose

import knnlm.components.knn as knn_module
from knnlm import equation
from knnlm.components import KNN, QueryArrays
from knnlm.components.knn import TargetVotes
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.search.exact import exact_search
from knnlm.search.index import open_index
from knnlm.search.neighbors import MISSING, Neighbors, NeighborsInMemory, recall
from knnlm.search.open import open_search
from knnlm.search.retrieval import Retrieval
from tests.arrays import Case, cases
from tests.components.examples import EntriesInMemory


@given(cases())
def test_it_is_the_dense_equation(case: Case) -> None:
    """Whole numbers are exact in fp32, so that the edge of mask-to-k is the same."""
    w_ds, h_ds = np.round(case.w_ds), np.round(case.h_ds)
    entries = EntriesInMemory(w_ds, case.tokens, len(case.w_sm), parts=case.parts)
    knn = KNN(entries, Retrieval(metric=case.metric, k=case.k), case.tau)
    scores = equation.similarity(w_ds.astype(float), h_ds.astype(float), case.metric)
    truth = equation.p_knn(scores, case.tokens, len(case.w_sm), case.k, case.tau)
    assert_allclose(knn.logprobs(torch.from_numpy(h_ds)).exp().numpy(), truth, atol=1e-5)
    logs = knn.target_logprobs(QueryArrays(h_ds, case.targets))
    assert_allclose(np.exp(logs), truth[np.arange(len(logs)), case.targets], atol=1e-5)


@pytest.mark.parametrize("key", ["att", "ffn"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("k", [1, 30])
def test_cached_and_live_neighbors_give_the_same_numbers(
    store: Entries, valid: Entries, key: str, metric: str, k: int
) -> None:
    knn = KNN(store, Retrieval(key=key, metric=metric, k=k), 4.0)  # type: ignore[arg-type]
    cached = knn.target_logprobs(valid)
    live = knn.target_logprobs(QueryArrays(valid.states(knn.keys), valid.targets))
    assert np.array_equal(cached, live)
    scores = equation.similarity(
        store.key(key).all().astype(float),
        valid.key(key).all().astype(float),
        knn.retrieval.metric,
    )
    truth = equation.p_knn(scores, store.targets, store.vocab_size, k, 4.0)
    assert_allclose(np.exp(cached), truth[np.arange(len(cached)), valid.targets], atol=1e-4)


@pytest.mark.parametrize("score", ["index", "exact"])
def test_an_index_gives_the_same_numbers_cached_and_live(
    store: Entries, valid: Entries, index: str, score: str
) -> None:
    retrieval = Retrieval(index=index, score=score, k=20)  # type: ignore[arg-type]
    knn = KNN(store, retrieval, 4.0)
    live = knn.target_logprobs(QueryArrays(valid.states(knn.keys), valid.targets))
    assert_allclose(knn.target_logprobs(valid), live, rtol=1e-5, atol=1e-5)
    states = valid.key("att").all()
    near, truth = (
        open_index(store, index).search(states, 20),
        exact_search(states, store.key("att"), 20, "l2"),
    )
    assert knn.recall(valid) == pytest.approx(recall(near, truth), abs=0.1)
    assert KNN(store, Retrieval(k=20)).recall(valid) == 1.0


def test_another_temperature_shares_the_open_search(
    store: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def counted(*args: object) -> object:
        opened.append(1)
        return open_search(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(knn_module, "open_search", counted)
    knn = KNN(store, Retrieval(k=4), 1.0)
    assert not opened
    knn.prepare()
    knn.prepare()
    knn.at_temperature(3.0).prepare()
    assert len(opened) == 1


def test_states_are_rounded_as_the_stored_ones_are(store: Entries) -> None:
    """A state of the datastore itself is at distance zero, whatever the model computed in."""
    knn = KNN(store, Retrieval(k=1))
    states = torch.from_numpy(store.key("att").read(0, 5).astype(np.float32)) * (1 + 1e-5)
    assert knn.neighbors(states).scores.max() == 0.0
    with pytest.raises(KnnlmError, match="does not fit the datastore's float16: build it with"):
        knn.neighbors(states * 1e6)


def test_a_missing_index_is_said_before_a_text_is_read(store: Entries) -> None:
    with pytest.raises(KnnlmError, match="no-such"):
        KNN(store, Retrieval(index="no-such", k=4)).prepare()


@pytest.mark.parametrize("tau", [0.0, float("nan")])
def test_a_temperature_out_of_range_is_refused_at_once(store: Entries, tau: float) -> None:
    with pytest.raises(UsageError, match="temperature .* out of range"):
        KNN(store, Retrieval(k=4), tau)


def votes_of(near: Neighbors, tokens: list[int], targets: list[int]) -> TargetVotes:
    arrays = (np.array(tokens, np.int32), np.array(targets, np.int32))
    return TargetVotes(NeighborsInMemory(near), *arrays)


def test_the_unit_is_the_usual_spread_of_scores() -> None:
    near = Neighbors(
        np.array([[0, 1, 2], [2, 1, MISSING], [MISSING] * 3, [1, 2, 0]]),
        np.array([[0, -2, -9], [0, -8, -np.inf], [-np.inf] * 3, [5, 2, 1]], np.float32),
    )
    votes = votes_of(near, [0, 1, 2], [0, 1, 2, 2])
    assert votes.unit == 3.0  # of 2, 4 and 3; a query without neighbors has none
    assert votes.head(2).unit == 1.5  # of 1, 4 and 1.5
    assert votes.coverage == 0.75
    assert votes.head(1).coverage == 0.25
    alike = Neighbors(np.array([[0, 1]]), np.zeros((1, 2), np.float32))
    assert votes_of(alike, [0, 1], [0]).unit == 1.0


def test_as_many_targets_as_queries() -> None:
    near = Neighbors(np.array([[0]]), np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match="1 queries but 2 targets"):
        votes_of(near, [0], [0, 0])


def test_blocks_of_queries_change_nothing(
    store: Entries, valid: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    knn = KNN(store, Retrieval(k=9), 2.0)
    whole, unit = knn.target_logprobs(valid), knn.target_scores(valid).unit
    monkeypatch.setattr(knn_module, "_BLOCK", 7)
    assert np.array_equal(knn.target_logprobs(valid), whole)
    assert knn.target_scores(valid).unit == unit
