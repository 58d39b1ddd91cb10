"""Exact search where it is hard: many duplicates, blocks smaller than the datastore, a large common
part, odd k."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import knnlm.search.exact as exact
import knnlm.search.products as products
import knnlm.search.reached as reached
import knnlm.search.whole_numbers as whole_numbers
from knnlm.errors import UsageError
from knnlm.search.exact import exact_search
from knnlm.search.precision import fastest_dtype, int8_products_are_right
from knnlm.search.scores import score_row
from knnlm.similarity import Metric
from tests.arrays import column

# where int8 products are wrong (no instructions for them), they are never used
DTYPES = [torch.float32, torch.bfloat16, *([torch.int8] if int8_products_are_right() else [])]
WAYS = ["few", *DTYPES]


def search_in(monkeypatch: pytest.MonkeyPatch, way: torch.dtype | str) -> None:
    """Multiply in this precision, however few queries there are; or as a few queries are."""
    if isinstance(way, torch.dtype):
        monkeypatch.setattr(exact, "MOST_QUERIES", 1)
        monkeypatch.setattr(exact, "fastest_dtype", lambda: way)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "TILE_ENTRIES", 700)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("count", [2, 6, 80])  # one is scanned, many multiplied
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_thousands_of_duplicates_at_the_edge_are_ordered_by_id(
    metric: Metric, count: int, dtype: type[np.floating[Any]]
) -> None:
    rng = np.random.default_rng(0)
    different = rng.standard_normal((5, 8)).astype(dtype)
    rows = different[rng.integers(0, 5, 4000)]  # each of the five is stored many times
    queries = rng.standard_normal((count, 8)).astype(np.float32)
    near = exact_search(queries, column(rows, 3), 900, metric)
    assert (np.diff(near.scores, axis=1) <= 0).all()
    for ids, scores in zip(near.ids, near.scores, strict=True):
        for value in np.unique(scores):
            group = ids[scores == value]
            every = np.flatnonzero((rows == rows[group[0]]).all(axis=1))
            assert np.array_equal(group, every[: len(group)])  # the lowest ids, in order


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("k", [1, 7, 1500, 4096])
@pytest.mark.parametrize("count", [1, 4, 5, 64, 65])
def test_blocks_and_k_do_not_change_the_neighbors(metric: Metric, k: int, count: int) -> None:
    rng = np.random.default_rng(1)
    # multiples of a quarter: fp16, fp32 and float64 agree on every sum
    rows = (rng.integers(-12, 13, (2000, 8)) / 4).astype(np.float16)
    queries = (rng.integers(-12, 13, (count, 8)) / 4).astype(np.float32)
    wide = rows.astype(np.float64)
    scores = (
        queries @ wide.T
        if metric == "ip"
        else -((queries[:, None].astype(np.float64) - wide) ** 2).sum(-1)
    )
    truth = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    near = exact_search(queries, column(rows, 4), k, metric)
    assert near.ids.shape == (count, k)
    assert np.array_equal(near.ids[:, : truth.shape[1]], truth)
    assert (near.ids[:, truth.shape[1] :] == -1).all()


def test_a_large_common_part_does_not_drown_small_distances() -> None:
    """Raw residual states share a large mean; expanding the square in fp32 would lose distances of
    1e-3."""
    rng = np.random.default_rng(2)
    rows = (1000 + rng.standard_normal((300, 16)) * 0.05).astype(np.float32)
    queries = rows[:5] + np.float32(0.01)
    near = exact_search(queries, column(rows), 10, "l2")
    truth = -((queries[:, None].astype(np.float64) - rows.astype(np.float64)) ** 2).sum(-1)
    assert_allclose(near.scores, -np.sort(-truth, axis=1)[:, :10], rtol=1e-4)


@pytest.mark.parametrize("k", [0, -3, 4097])
def test_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(UsageError, match=f"k = {k} is out of range: choose 1 to 4096"):
        exact_search(np.zeros((1, 2), np.float32), column(np.zeros((3, 2), np.float32)), k, "l2")


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("k", [1, 10, 300])
def test_products_in_either_precision_give_the_true_neighbors(
    way: torch.dtype | str, metric: Metric, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """int8 and bfloat16 have eight bits: most of these scores differ by less than that tells."""
    search_in(monkeypatch, way)
    rng = np.random.default_rng(k)
    rows = (5 + rng.standard_normal((20_000, 24)) * rng.gamma(1, 1, 24)).astype(np.float16)
    queries = rows[rng.integers(0, len(rows), 40)] + rng.normal(0, 0.1, (40, 24)).astype(np.float32)
    wide = rows.astype(np.float64)
    scores = (
        queries @ wide.T
        if metric == "ip"
        else np.stack([-((q.astype(np.float64) - wide) ** 2).sum(1) for q in queries])
    )
    near = exact_search(queries, column(rows, 3), k, metric)
    truth = -np.sort(-scores, axis=1)[:, :k]
    assert_allclose(np.take_along_axis(scores, near.ids, axis=1), truth, rtol=1e-6)
    assert_allclose(near.scores, truth, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_a_state_stored_very_often_takes_no_memory_and_no_wrong_neighbor(
    way: torch.dtype | str, metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More entries reach the bar than are kept: such queries are searched another way."""
    search_in(monkeypatch, way)
    searched, real = [], exact._search_above

    def counted(*a: Any) -> Any:
        searched.append(a)
        return real(*a)

    monkeypatch.setattr(exact, "_search_above", counted)
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((30_000, 8)).astype(np.float16)
    rows[rng.choice(30_000, 20_000, replace=False)] = 1
    queries = np.ones((40, 8), np.float32) + rng.normal(0, 0.01, (40, 8)).astype(np.float32)
    near = exact_search(queries, column(rows, 2), 50, metric)
    assert searched
    for query, ids, scores in zip(queries, near.ids, near.scores, strict=True):
        every = score_row(metric, query, np.arange(len(rows)), column(rows))
        order = np.lexsort((np.arange(len(rows)), -every))[:50]
        assert np.array_equal(ids, order)
        assert np.array_equal(scores, every[order])


def test_a_bad_guess_of_the_bar_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((9_000, 8)).astype(np.float16)
    queries = rng.standard_normal((80, 8)).astype(np.float32)
    truth = exact_search(queries, column(rows), 100, "l2")
    real = products.guess_bars
    for shift in (-1e9, -1.0, 1.0, 1e9):  # every entry reaches it, too many, too few, none

        def shifted(*a: Any, by: float = shift) -> Any:
            bars, lower, longest = real(*a)
            return bars + by, lower + by, longest

        monkeypatch.setattr(exact, "guess_bars", shifted)
        near = exact_search(queries, column(rows), 100, "l2")
        monkeypatch.undo()
        assert np.array_equal(near.ids, truth.ids)
        assert np.array_equal(near.scores, truth.scores)


@pytest.mark.skipif(torch.int8 not in DTYPES, reason="int8 products are wrong on this CPU")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("seed", range(6))
def test_int8_bounds_hold_for_states_of_every_kind(
    metric: Metric, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outliers in entries, dimensions and queries: some have no bound."""
    search_in(monkeypatch, torch.int8)
    monkeypatch.setattr(exact, "bounds_most", lambda *_: True)
    rng = np.random.default_rng(seed)
    width = int(rng.integers(3, 40))
    rows = rng.standard_normal((6_000, width)) * rng.gamma(0.5, 2, width) + rng.normal(0, 9, width)
    rows[rng.random(6_000) < 0.01] *= 50
    rows[:, 0] = 3.0  # a dimension without a spread
    stored = rows.astype(np.float16)
    queries = stored[rng.integers(0, 6_000, 48)].astype(np.float32)
    queries[:24] += rng.normal(0, 0.3, (24, width)).astype(np.float32)
    queries[0] *= 100
    wide = stored.astype(np.float64)
    near = exact_search(queries, column(stored, 3), 20, metric)
    for query, ids, scores in zip(queries, near.ids, near.scores, strict=True):
        every = score_row(metric, query, np.arange(len(stored)), column(stored))
        order = np.lexsort((np.arange(len(stored)), -every))[:20]
        assert np.array_equal(ids, order)
        assert np.array_equal(scores, every[order])
    asked = whole_numbers.ask_whole(*_space_and_grid(stored, metric), queries)
    exactly = (
        queries @ wide.T
        if metric == "ip"
        else -((queries[:, None].astype(np.float64) - wide) ** 2).sum(-1)
    )
    bars = np.quantile(exactly, 0.9, axis=1)
    asked.set_bars(bars)
    reached_pairs = {
        (int(q), int(i))
        for tile in asked.candidates(
            column(stored, 3), reached.tile_starts(column(stored, 3), asked.tile)
        )
        for q, i in zip(tile.queries, tile.columns + tile.start, strict=True)
    }
    margin = asked.tolerance(bars, float(np.linalg.norm(wide, axis=1).max()))[:, None]
    for query, entry in np.argwhere(exactly >= bars[:, None] + margin):
        assert asked.unbounded[query] or (int(query), int(entry)) in reached_pairs


def _space_and_grid(
    stored: np.ndarray[Any, Any], metric: Metric
) -> tuple[products.Space, whole_numbers.Grid]:
    states = products.some_states(column(stored))
    space = products.space_of(states, metric, torch.float32)
    return space, whole_numbers.grid_of(space, states)


def test_the_precision_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNNLM_PRODUCTS", "bfloat16")
    assert fastest_dtype.__wrapped__() == torch.bfloat16
    monkeypatch.setenv("KNNLM_PRODUCTS", "float8")
    with pytest.raises(UsageError, match=r"KNNLM_PRODUCTS=float8 is unknown: choose float32"):
        fastest_dtype.__wrapped__()
    monkeypatch.setenv("KNNLM_PRODUCTS", "int8")
    monkeypatch.setattr("knnlm.search.precision.int8_products_are_right", lambda: False)
    with pytest.raises(UsageError, match="this CPU loses bits there: choose float32"):
        fastest_dtype.__wrapped__()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_queries_that_stay_uncertain_are_searched_to_the_end(
    metric: Metric, way: torch.dtype | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many equal entries at the edge, and a certificate that is never given."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((5, 8)).astype(np.float16)[rng.integers(0, 5, 4000)]
    queries = rng.standard_normal((20, 8)).astype(np.float32)
    near = exact_search(queries, column(rows, 3), 900, metric)
    search_in(monkeypatch, way)
    real = exact._attempt

    def uncertain(*a: Any) -> Any:
        attempt = real(*a)
        return attempt._replace(certain=np.zeros_like(attempt.certain))

    monkeypatch.setattr(exact, "_attempt", uncertain)
    again = exact_search(queries, column(rows, 3), 900, metric)
    assert np.array_equal(again.ids, near.ids)
    assert np.array_equal(again.scores, near.scores)


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_states_of_which_many_have_no_bound_are_not_multiplied_in_int8(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "fastest_dtype", lambda: torch.int8)
    rng = np.random.default_rng(6)
    rows = 1 + rng.standard_normal((3_000, 64))
    assert exact._ways(column(rows.astype(np.float16)), "l2").grid is not None
    rows[::10] *= 30
    assert exact._ways(column(rows.astype(np.float16)), metric).grid is None
