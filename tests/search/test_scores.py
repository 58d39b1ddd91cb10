"""Exact scores: the same number for a pair, whatever else is scored with it."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knnlm.search.scores as scores
from knnlm.search.scores import score_entries, score_row
from knnlm.similarity import Metric
from tests.arrays import column


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_score_is_the_same_alone_by_query_and_by_tile(
    metric: Metric, width: int, dtype: type[np.floating[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(width)
    rows: np.ndarray[Any, Any] = rng.standard_normal((900, width)).astype(dtype)
    queries = rng.standard_normal((30, width)).astype(np.float32)
    ids = rng.integers(-1, 900, (30, 40))
    keys = column(rows, 3)
    monkeypatch.setattr(scores, "_TILE_ENTRIES", 100)
    read = {}
    for name, pairs in (("by query", 1 << 30), ("by tile", 0)):
        monkeypatch.setattr(scores, "_PAIRS_OF_A_TILE", pairs)
        read[name] = score_entries(metric, queries, ids, keys)
    assert np.array_equal(read["by query"], read["by tile"])
    alone = score_row(metric, queries[3], np.maximum(ids[3, 5:6], 0), keys)[0]
    assert read["by tile"][3, 5] == (alone if ids[3, 5] >= 0 else -np.inf)
    wide = rows.astype(np.float64)[ids]
    asked = queries[:, None].astype(np.float64)
    exactly = -((asked - wide) ** 2).sum(-1) if metric == "l2" else (asked * wide).sum(-1)
    exactly[ids < 0] = -np.inf
    assert (read["by tile"] == -np.inf).sum() == (ids < 0).sum()
    there = ids >= 0
    assert_allclose(read["by tile"][there], exactly[there], rtol=1e-5, atol=1e-5)


def test_no_pairs_have_no_scores() -> None:
    keys = column(np.ones((5, 2), np.float16))
    assert score_entries("l2", np.ones((0, 2)), np.empty((0, 3), np.int64), keys).shape == (0, 3)
    assert score_entries("l2", np.ones((2, 2)), np.empty((2, 0), np.int64), keys).shape == (2, 0)
