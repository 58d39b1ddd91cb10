"""Scores for neighbors found already: each against its definition, and zero rows against a search
among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.datastore.entries import Entries
from knnlm.experiments.derive import derive
from knnlm.experiments.searches import zero_entries
from knnlm.search.cache import cached_neighbors
from knnlm.search.exact import exact_search
from knnlm.search.index_building import build_index
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import Retrieval
from knnlm.similarity import METRICS, Metric
from knnlm_paper.measuring.scores import decoded, flipped, half, with_zeros
from tests.arrays import Case, InMemory, cases, column


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("factory", ["IVF8,PQ4x4np", "PQ4x4np", "IVF8,Flat"])
def test_decoded_scores_of_an_indexs_own_neighbors_are_its_scores(
    store: Entries, queries: Entries, factory: str, metric: Metric
) -> None:
    index = build_index(store, "att", metric, factory=factory, nprobe=4, recall=0)
    own = cached_neighbors(
        store, queries, Retrieval(metric=metric, index=index.name, score="index", k=20)
    )
    again = decoded(own, queries.key("att"), index).read(0, queries.count)
    truth = own.read(0, queries.count)
    have = truth.ids >= 0
    assert np.array_equal(again.ids >= 0, have)
    scale = np.abs(truth.scores[have]).max()
    assert np.allclose(again.scores[have], truth.scores[have], atol=1e-4 * scale)


@given(cases(), st.integers(1, 200))
def test_zero_entries_are_where_a_search_among_them_finds_them(case: Case, zeros: int) -> None:
    clean = exact_search(case.h_ds, column(case.w_ds), case.k, case.metric)
    queries = column(case.h_ds.astype(np.float32))
    merged = with_zeros(InMemory(clean), queries, case.metric, zeros, len(case.w_ds)).read(
        0, len(case.h_ds)
    )
    among = np.concatenate([case.w_ds, np.zeros((zeros, case.w_ds.shape[1]), np.float32)])
    truth = exact_search(case.h_ds, column(among), case.k, case.metric)
    assert np.array_equal(merged.ids, truth.ids)
    assert np.array_equal(merged.scores, truth.scores)


@given(cases())
def test_half_scores_are_the_real_ones_to_fp16(case: Case) -> None:
    stored, asked = case.w_ds.astype(np.float16), case.h_ds.astype(np.float16)
    near = exact_search(asked, column(stored), case.k, case.metric)
    found = half(InMemory(near), column(asked), column(stored), case.metric).read(0, len(asked))
    have = near.ids >= 0
    assert np.array_equal(np.sort(found.ids, axis=1), np.sort(near.ids, axis=1))
    order = np.argsort(found.ids, axis=1), np.argsort(near.ids, axis=1)
    mine = np.take_along_axis(found.scores, order[0], 1)[np.take_along_axis(have, order[1], 1)]
    real = np.take_along_axis(near.scores, order[1], 1)[np.take_along_axis(have, order[1], 1)]
    assert np.array_equal(mine, mine.astype(np.float16).astype(np.float32))
    assert np.allclose(mine, real, rtol=4e-3, atol=2e-2)


def test_flipped_scores_put_the_farthest_first_and_leave_missing_ones_out() -> None:
    near = Neighbors(np.array([[4, 7, -1]]), np.array([[-1.0, -9.0, -np.inf]], np.float32))
    found = flipped(InMemory(near)).read(0, 1)
    assert found.ids.tolist() == [[7, 4, -1]]
    assert found.scores.tolist() == [[9.0, 1.0, -np.inf]]


def test_a_store_with_zero_entries_holds_them_at_its_end(store: Entries) -> None:
    count = zero_entries(store.count, 0.26)
    dirty = derive(store, store.path.parent / "dirty", ("att",), {"zeros": 0.26}, zeros=count)
    assert dirty.count == store.count + count
    assert count / dirty.count == pytest.approx(0.26, abs=1e-3)
    assert not dirty.key("att").read(store.count, dirty.count).any()
    assert not dirty.targets[store.count :].any()
    assert np.array_equal(dirty.key("att").read(0, store.count), store.key("att").all())
    assert dirty.meta["derived"] == {"zeros": 0.26}
