"""A sweep beside the dense float64 equation, and beside the functions that take one point."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from knnlm.components.knn import TargetVotes
from knnlm.errors import UsageError
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.sweeps import sweep
from knnlm.search.neighbors import MISSING, Neighbors, NeighborsInMemory

LAMS = (0.0, 1e-6, 0.1, 0.5, 0.93, 1.0)


def example(rng: np.random.Generator, queries: int, count: int) -> tuple[TargetVotes, Neighbors]:
    """Votes with ties, missing neighbors, queries without any neighbor and without a hit."""
    scores = -np.sort(rng.gamma(1, 9, (queries, count)).astype(np.float32), axis=1)
    if rng.random() < 0.5:
        scores = np.round(scores)
    ids = rng.integers(0, 30, (queries, count))
    gone = np.arange(count) >= rng.choice([0, 1, count // 2, count], queries)[:, None]
    near = Neighbors(np.where(gone, MISSING, ids), np.where(gone, np.float32(-np.inf), scores))
    tokens = rng.integers(0, 4, 30).astype(np.int32)
    targets = rng.integers(0, 5, queries).astype(np.int32)  # no entry holds 4
    return TargetVotes(NeighborsInMemory(near), tokens, targets), near


def dense(votes: TargetVotes, near: Neighbors, k: int, tau: float) -> NDArray[np.float64]:
    """log p_kNN of the equation, in float64 and log space."""
    exponents = near.scores[:, :k].astype(np.float64) / tau
    hits = votes.hits[:, :k]
    held = np.logaddexp.reduce(np.where(hits, exponents, -np.inf), axis=1)
    total = np.logaddexp.reduce(exponents, axis=1)
    return np.where(hits.any(axis=1), held - np.where(np.isfinite(total), total, 0), -np.inf)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 50))
def test_every_point_is_the_dense_equation(seed: int, queries: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    votes, near = example(rng, queries, count)
    lm = -rng.gamma(2, 2, queries)
    ks = sorted({1, (count + 1) // 2, count})
    taus = [1.0, 0.01, 300.0, float(rng.uniform(0.1, 5))]
    swept = sweep(lm, votes, ks, taus, LAMS)
    assert swept.logprob.shape == (len(ks), len(taus), len(LAMS))
    for i, k in enumerate(ks):
        for j, tau in enumerate(taus):
            truth, of_one = dense(votes, near, k, tau), votes.head(k).logprobs(tau)
            for n, lam in enumerate(LAMS):
                # exponents of fp32 are off by 2^-24 of themselves: up to 9,000 at τ = 0.01
                for logs in (truth, of_one):
                    wanted = mix(lm, logs, lam).mean()
                    assert_allclose(swept.logprob[i, j, n], wanted, rtol=1e-6, atol=2e-6)
                assert_allclose(
                    swept.perplexity[i, j, n], perplexity(mix(lm, truth, lam)), rtol=1e-3
                )


@given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1 - 1e-9))
def test_bins_change_a_token_by_less_than_1e_10(seed: int, lam: float) -> None:
    """One neighbor that hits has log p_kNN = 0 exactly, so x = -log p_LM, in any bin."""
    lm = -np.random.default_rng(seed).choice([1e-9, 0.03, 2.0, 40.0, 700.0], 3)
    lm += np.random.default_rng(seed).normal(0, 1e-3, 3)
    near = Neighbors(np.zeros((3, 1), np.int64), np.zeros((3, 1), np.float32))
    votes = TargetVotes(NeighborsInMemory(near), np.zeros(1, np.int32), np.zeros(3, np.int32))
    swept = sweep(lm, votes, [1], [1.0], [lam])
    wanted = mix(lm, np.zeros(3), lam).mean()
    assert_allclose(swept.logprob[0, 0, 0], wanted, rtol=1e-13, atol=1e-10)


def test_blocks_and_cores_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    votes, _ = example(rng, 300, 40)
    lm = -rng.gamma(2, 2, 300)
    grid = ([1, 7, 40], np.geomspace(0.1, 10, 7).tolist(), [0.2, 0.9])
    whole = sweep(lm, votes, *grid)
    monkeypatch.setattr("knnlm.components.knn._GRID_BLOCK", 17)
    monkeypatch.setattr("knnlm.components.vote_grid._WEIGHTS_AT_ONCE", 1 << 9)
    monkeypatch.setattr("knnlm.evaluation.sweeps.core_count", lambda: 5)
    assert_allclose(sweep(lm, votes, *grid).logprob, whole.logprob, rtol=1e-6)


def test_the_best_point_is_the_lowest_perplexity() -> None:
    rng = np.random.default_rng(3)
    votes, _ = example(rng, 200, 30)
    swept = sweep(-rng.gamma(2, 2, 200), votes, [2, 30], [10.0, 0.5], [0.3, 0.0, 1.0])
    best = swept.best()
    assert best.ppl == swept.perplexity.min() < math.inf
    at = swept.ks.index(best.k), swept.taus.index(best.tau), swept.lams.index(best.lam)
    assert swept.perplexity[at] == best.ppl
    assert swept.perplexity[..., 2].max() == math.inf  # some tokens have no hit
    assert_allclose(swept.logprob[..., 1], swept.logprob[0, 0, 1])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (([], [1.0], [0.5]), "no `ks` given"),
        (([1], [], [0.5]), "no `taus` given"),
        (([1], [1.0], []), "no `lams` given"),
        (([4, 2], [1.0], [0.5]), "`ks` must ascend"),
        (([99], [1.0], [0.5]), "`ks` must ascend from 1 at least to 5 at most"),
        (([1], [0.0], [0.5]), "temperature 0.0 is out of range"),
        (([1], [1.0], [1.5]), "lambda 1.5 is out of range"),
    ],
)
def test_a_grid_out_of_range_is_refused(
    grid: tuple[list[int], list[float], list[float]], message: str
) -> None:
    votes, _ = example(np.random.default_rng(0), 3, 5)
    with pytest.raises(UsageError, match=message):
        sweep(-np.ones(3), votes, *grid)
    with pytest.raises(UsageError, match="log p_LM is not finite"):
        sweep(np.array([-1, -np.inf, -1]), votes, [1], [1.0], [0.5])
