"""The one bootstrap: draws that can be repeated, paired statistics, intervals of 95 %."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knnlm.evaluation import bootstrap as module
from knnlm.evaluation.bootstrap import Counts, bootstrap, bootstrap_means, interval_95


def draws(units: int, one_by_one: bool, samples: int = 200, seed: int = 1) -> Counts:
    return bootstrap(
        lambda counts: counts, units, samples=samples, seed=seed, one_by_one=one_by_one
    )


@pytest.mark.parametrize("one_by_one", [False, True])
def test_each_draw_has_as_many_units_as_there_are(one_by_one: bool) -> None:
    counts = draws(30, one_by_one)
    assert counts.shape == (200, 30)
    assert_array_equal(counts.sum(axis=1), 30)
    assert_array_equal(counts, np.round(counts))
    assert_allclose(counts.mean(axis=0), 1, atol=0.35)
    assert_array_equal(counts, draws(30, one_by_one))
    assert (counts != draws(30, one_by_one, seed=2)).any()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_draws_in_blocks_are_the_same_draws(
    monkeypatch: pytest.MonkeyPatch, one_by_one: bool
) -> None:
    whole = draws(30, one_by_one)
    monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 30 * 7)
    assert_array_equal(draws(30, one_by_one), whole)


def test_units_drawn_one_by_one_are_counted() -> None:
    indices = np.random.default_rng(1).integers(30, size=(200, 30))
    counted = [np.bincount(row, minlength=30) for row in indices]
    assert_array_equal(draws(30, one_by_one=True), counted)


def test_statistics_of_the_same_units_are_paired() -> None:
    rng = np.random.default_rng(0)
    sums, totals = rng.normal(size=50), rng.integers(1, 90, 50).astype(np.float64)
    assert_allclose(
        bootstrap_means(sums + 3 * totals, totals) - bootstrap_means(sums, totals), 3, rtol=1e-12
    )


def test_the_interval_leaves_out_the_same_share_at_both_ends() -> None:
    assert_allclose(interval_95(np.arange(1001.0)), (25, 975))
