"""Successors of neighbors: which entries they are, how they vote, and when a search is needed."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm import equation
from knnlm.components.outputs import count_votes
from knnlm.datastore import Column, ColumnType
from knnlm.errors import UsageError
from knnlm.search import Neighbors, Retrieval, SuccessorSearch, exact_search
from knnlm.search.successors import successors

VOCABULARY, K = 5, 12


class Store(NamedTuple):
    """As much of a datastore as is asked for."""

    targets: np.ndarray
    document_numbers: np.ndarray
    column: Column

    def key(self, _: str) -> Column:
        return self.column


def a_store(seed: int, entries: int = 60, width: int = 4) -> Store:
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((entries, width)).astype(np.float16)
    documents = np.sort(rng.integers(0, 4, entries)).astype(np.int32)
    targets = rng.integers(0, VOCABULARY, entries).astype(np.int32)
    return Store(targets, documents, Column([states], ColumnType("<f2", width)))


def a_search(store: Store, metric: Any, asked: list[int]) -> Any:
    def search(states: np.ndarray, k: int | None = None) -> Neighbors:
        asked.append(len(states))
        return exact_search(states, store.column, K, metric)

    return search


def by_hand(store: Store, ids: set[int], token: int) -> set[int]:
    """Successors, one entry at a time."""
    last = len(store.targets) - 1
    return {
        i + 1
        for i in ids
        if i < last
        and store.targets[i] == token
        and store.document_numbers[i] == store.document_numbers[i + 1]
    }


@given(st.integers(0, 10_000), st.sampled_from(["l2", "ip"]), st.integers(1, 4))
def test_the_vote_of_successors_is_the_dense_equation_over_them(
    seed: int, metric: Any, least: int
) -> None:
    store, rng, asked = a_store(seed), np.random.default_rng(seed + 1), list[int]()
    retrieval = Retrieval(key="att", metric=metric, k=K)
    near = SuccessorSearch(store, retrieval, a_search(store, metric, asked), least)  # type: ignore[arg-type]
    w_ds = store.column.all().astype(np.float64)
    last: list[set[int]] = [set(), set()]
    for step in range(6):
        states = rng.standard_normal((2, 4)).astype(np.float16).astype(np.float32)
        tokens = rng.integers(0, VOCABULARY, 2)
        before = sum(asked)
        got = near(states, tokens if step else None)
        p = count_votes(got, store.targets, VOCABULARY, 0.7).dense(VOCABULARY).exp().numpy()
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
        searched = 0
        for row in range(2):
            follow = by_hand(store, last[row], int(tokens[row])) if step else set[int]()
            scores = equation.similarity(w_ds, states[row : row + 1].astype(np.float64), metric)
            if len(follow) < least:
                searched += 1
            else:  # nobody else may vote
                scores[0, [i for i in range(len(w_ds)) if i not in follow]] = -np.inf
            k = K if len(follow) < least else len(follow)
            dense = equation.p_knn(scores, store.targets, VOCABULARY, k, 0.7)
            np.testing.assert_allclose(p[row], dense[0], rtol=1e-4, atol=1e-6)
            last[row] = {int(i) for i in got.ids[row] if i >= 0}
        assert sum(asked) - before == searched
    assert (near.steps, near.searches) == (12, sum(asked))


@given(st.integers(0, 10_000))
def test_where_too_many_are_asked_for_every_step_searches(seed: int) -> None:
    store, rng, asked = a_store(seed), np.random.default_rng(seed), list[int]()
    search = a_search(store, "l2", asked)
    near = SuccessorSearch(store, Retrieval(k=K), search, K + 1)  # type: ignore[arg-type]
    for _ in range(4):
        states = rng.standard_normal((1, 4)).astype(np.float32)
        got, wanted = near(states, np.array([1])), search(states)
        np.testing.assert_array_equal(got.ids, wanted.ids)
        np.testing.assert_array_equal(got.scores, wanted.scores)
    assert near.searches == near.steps == 4


def test_rows_that_search_do_so_together_and_others_not_at_all() -> None:
    states = np.arange(12, dtype=np.float16).reshape(12, 1)
    store = Store(
        np.arange(12, dtype=np.int32),
        np.zeros(12, np.int32),
        Column([states], ColumnType("<f2", 1)),
    )
    asked: list[int] = []
    search = a_search(store, "l2", asked)
    near = SuccessorSearch(store, Retrieval(k=K), search, 1)  # type: ignore[arg-type]
    three = np.array([[3], [5], [7]], np.float32)
    near(three, None)
    second = near(three, np.array([3, 99, 98]))
    assert asked == [3, 2]
    assert second.ids[0].tolist() == [4] + [-1] * (K - 1)
    near(three, None)  # another text: nothing is followed
    assert asked == [3, 2, 3]


def test_the_last_entry_of_a_document_and_a_missing_one_have_no_successor() -> None:
    targets, documents = np.zeros(4, np.int32), np.array([0, 0, 1, 1], np.int32)
    after = successors(np.array([[0, 1, 2, 3, -1]]), np.array([0]), targets, documents)
    assert after.tolist() == [[1, -1, 3, -1, -1]]


def test_less_than_one_successor_is_refused() -> None:
    with pytest.raises(UsageError, match="`reuse` 0 is out of range: choose 1 or more"):
        SuccessorSearch(a_store(0), Retrieval(k=K), a_search(a_store(0), "l2", []), 0)  # type: ignore[arg-type]
