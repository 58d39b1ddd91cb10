"""Sums of weights from power sums beside exponentials in float64."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from knnlm.components.vote_grid import VoteGrid
from knnlm.components.weight_sums import WeightSums

SPREADS = (1e-30, 1e-6, 0.05, 1.0, 30.0, 1e4, 1e30)


def scores_of(rng: np.random.Generator, queries: int, count: int) -> NDArray[np.float32]:
    """Sorted scores of any spread, with ties and missing neighbors; the nearest is there."""
    spread = rng.choice(SPREADS, (queries, 1))
    distances = np.sort(rng.gamma(rng.choice([0.2, 1, 40]), 1, (queries, count)), axis=1) * spread
    if rng.random() < 0.3:
        distances = np.repeat(distances, 3, axis=1)[:, :count]
    if rng.random() < 0.3:
        distances[:, 1:] += spread * 20  # all but the first are far away
    scores = (rng.choice([0.0, -7.0, 300.0]) - distances).astype(np.float32)
    gone = np.arange(count) >= rng.choice([1, (count + 1) // 2, count], (queries, 1))
    return np.where(gone, np.float32(-np.inf), scores)


def taus_of(rng: np.random.Generator) -> list[float]:
    """Some τ in any order, alone or over many decades."""
    decades = rng.choice([0, 1, 4, 30])
    taus: list[float] = (10 ** rng.uniform(-decades, decades, rng.integers(1, 9))).tolist()
    return taus


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 200))
def test_log_p_is_that_of_exponentials(seed: int, queries: int, count: int) -> None:
    """Also where the only hits are far away, where an exponential of float64 would underflow."""
    rng = np.random.default_rng(seed)
    scores, taus = scores_of(rng, queries, count), taus_of(rng)
    ks = sorted({1, *rng.integers(1, count + 1, 3).tolist(), count})
    hits = rng.random((queries, count)) < rng.choice([0.02, 0.5, 1.0])
    hits &= np.isfinite(scores)
    covered = np.flatnonzero(hits.any(axis=1))
    logs = VoteGrid(ks, taus).logprobs(scores, hits, covered)
    assert logs.shape == (len(ks), len(taus), len(covered))
    for number, k in enumerate(ks):
        below_best = (scores[covered, :k] - scores[covered, :1].astype(np.float64))[None]
        exponents = below_best / np.array(taus)[:, None, None]
        some = hits[covered, :k].any(axis=1)
        held = np.where(hits[covered, :k], exponents, -np.inf)
        total = np.logaddexp.reduce(exponents, axis=2)
        wanted = np.logaddexp.reduce(held, axis=2) - total
        assert (np.isfinite(logs[number]) == some).all()
        assert (logs[number][:, ~some] == -np.inf).all()
        assert_allclose(logs[number][:, some], wanted[:, some], rtol=1e-14, atol=1e-7)


@pytest.mark.parametrize(("count", "limit"), [(2, 2e-11), (1 << 10, 1e-8), (1 << 14, 6e-8)])
def test_the_worst_case_is_within_the_stated_error(count: int, limit: float) -> None:
    """All neighbors but the best at one distance, wherever that is."""
    taus = np.geomspace(0.05, 50, 60)
    near, far = np.linspace(0, 3, 20_001), np.geomspace(3, 3000, 20_001)
    distances = np.concatenate([near, far])
    exact = np.exp(-distances[:, None] / taus)
    weights = WeightSums(taus.tolist())(distances, np.arange(len(distances) + 1))
    error = (count - 1) * np.abs(weights - exact) / (1 + (count - 1) * exact)
    assert error.max() < limit


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 9))
def test_groups_do_not_depend_on_one_another(seed: int, members: int, groups: int) -> None:
    """Any order within a group, empty groups, and memory kept from a larger call."""
    rng = np.random.default_rng(seed)
    distances = rng.gamma(0.3, 30, members)
    distances[rng.random(members) < 0.2] = np.inf
    edges = np.concatenate([[0], np.sort(rng.integers(0, members + 1, groups - 1)), [members]])
    sums = WeightSums([0.5, 20.0])
    together = sums(distances.copy(), edges)
    for group, (start, stop) in enumerate(pairwise(edges.tolist())):
        alone = sums(distances[start:stop].copy(), np.array([0, stop - start]))[0]
        assert_allclose(together[group], alone, rtol=1e-14)
        exact = np.exp(-distances[start:stop, None] / [0.5, 20.0]).sum(axis=0)
        assert_allclose(together[group], exact, rtol=1e-6, atol=1e-9)
