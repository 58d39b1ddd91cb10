"""Exact search where it is hard: many duplicates, blocks smaller than the datastore, a large common
part, odd k."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knnlm.search.exact as exact
from knnlm.errors import UsageError
from knnlm.search.exact import exact_search
from knnlm.similarity import Metric
from tests.arrays import column


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "BLOCK_BYTES", 4 * 8 * 700)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("count", [1, 6, 20])  # few are scanned, many multiplied
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
@pytest.mark.parametrize("count", [1, 8, 9])
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
