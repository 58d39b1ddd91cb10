"""All entries vote: against the equation in float64 with k as large as the datastore."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from knnlm.components import KNN, FullDatastore, QueryArrays, full_datastore
from knnlm.datastore.entries import Entries
from knnlm.equation import p_knn, similarity
from knnlm.errors import UsageError
from knnlm.search.retrieval import Retrieval
from knnlm.similarity import METRICS, Metric
from tests.arrays import Case, cases
from tests.components.examples import EntriesInMemory


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    entries=st.integers(1, 40),
    vocab_size=st.integers(1, 9),
    queries=st.integers(1, 9),
    block=st.integers(1, 50),
    metric=st.sampled_from(["l2", "ip"]),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_it_is_the_equation_with_every_entry(
    seed: int,
    entries: int,
    vocab_size: int,
    queries: int,
    block: int,
    metric: Metric,
    spread: float,
) -> None:
    rng = np.random.default_rng(seed)
    stored = (rng.standard_normal((entries, 3)) * spread).astype(np.float16)
    asked = (rng.standard_normal((queries, 3)) * spread).astype(np.float16)
    tokens = rng.integers(0, vocab_size, entries)
    targets = rng.integers(0, vocab_size, queries).astype(np.int32)
    taus = [0.5, 1.0, 20.0]
    component = FullDatastore(EntriesInMemory(stored, tokens, vocab_size), "att", metric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full_datastore, "_ENTRIES", block)
        patch.setattr(full_datastore, "_QUERIES", max(1, block // 3))
        several = component.target_scores(QueryArrays(asked, targets)).several(taus)
        whole = [
            component.at_temperature(tau).logprobs(torch.from_numpy(asked)).double().numpy()
            for tau in taus
        ]
    scores = similarity(stored.astype(np.float64), asked.astype(np.float64), metric)
    for logs, over_vocabulary, tau in zip(several, whole, taus, strict=True):
        with np.errstate(divide="ignore"):
            truth = np.log(p_knn(scores, tokens, vocab_size, entries, tau))
        wanted = truth[np.arange(queries), targets]
        sure = wanted > -600  # below, the dense equation comes near the end of float64
        assert np.allclose(logs[sure], wanted[sure], rtol=1e-4, atol=1e-3)
        assert np.array_equal(np.isfinite(logs), np.isin(targets, tokens))
        sure = truth > -600
        assert np.allclose(over_vocabulary[sure], truth[sure], rtol=1e-4, atol=1e-3)
        assert np.isneginf(over_vocabulary[:, ~np.isin(np.arange(vocab_size), tokens)]).all()


@given(cases())
def test_it_is_knn_with_as_many_neighbors_as_entries(case: Case) -> None:
    entries = EntriesInMemory(case.w_ds, case.tokens, len(case.w_sm), parts=case.parts)
    tau = max(case.tau, 0.3)  # fp32 scores of both differ in their last digits
    knn = KNN(entries, Retrieval(metric=case.metric, k=len(case.w_ds)), tau)
    full, h = FullDatastore(entries, "att", case.metric, tau), torch.from_numpy(case.h_ds)
    p = full.logprobs(h).exp()
    assert_allclose(p, knn.logprobs(h).exp(), atol=1e-4)
    assert_allclose(p.sum(1), 1, atol=1e-5)
    asked = QueryArrays(case.h_ds, case.targets)
    logs, of_neighbors = full.target_logprobs(asked), knn.target_logprobs(asked)
    assert np.array_equal(np.isneginf(logs), np.isneginf(of_neighbors))
    assert_allclose(logs, of_neighbors, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_knn_with_all_entries_of_a_real_datastore(
    store: Entries, valid: Entries, metric: Metric
) -> None:
    full = FullDatastore(store, "att", metric, 5.0)
    knn = KNN(store, Retrieval(metric=metric, k=store.count), 5.0)
    assert_allclose(full.target_logprobs(valid), knn.target_logprobs(valid), atol=1e-4)


@pytest.mark.parametrize("tau", [0.0, -2.0, float("nan")])
def test_a_temperature_of_nothing_is_refused(tau: float) -> None:
    entries = EntriesInMemory(np.zeros((2, 3), np.float32), np.zeros(2, int), 4)
    with pytest.raises(UsageError, match="choose a number above 0"):
        FullDatastore(entries, "att", tau=tau)
    asked = QueryArrays(np.zeros((1, 3)), np.zeros(1, np.int32))
    with pytest.raises(UsageError, match="choose a number above 0"):
        FullDatastore(entries, "att").target_scores(asked).several([1.0, tau])


def test_equal_scores_have_a_unit_too() -> None:
    entries = EntriesInMemory(np.zeros((5, 3), np.float32), np.zeros(5, int), 4)
    asked = QueryArrays(np.zeros((2, 3)), np.zeros(2, np.int32))
    assert FullDatastore(entries, "att").target_scores(asked).unit == 1.0
