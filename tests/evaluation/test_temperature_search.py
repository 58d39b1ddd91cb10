"""The one search for τ: never worse than a fine grid, wherever the best τ is."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from knnlm.components import FullDatastore, Head, QueryArrays
from knnlm.components.base import Logs, TargetScores
from knnlm.components.knn import TargetVotes
from knnlm.components.mixture import Mixture
from knnlm.errors import UsageError
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.evaluation.tuning import best_temperature, temperature_sweep
from knnlm.search.neighbors import Neighbors, NeighborsInMemory
from tests.components.examples import EntriesInMemory

ENOUGH = 1 + 1e-5
V, D = 12, 5


def ppl_at(lm: Logs, scores: TargetScores, tau: float) -> float:
    logs = scores.logprobs(tau)
    return perplexity(mix(lm, logs, fit_lambda(lm, logs)))


def best_of_grid(lm: Logs, scores: TargetScores, decades: float = 4, points: int = 160) -> float:
    grid = np.geomspace(scores.unit / 10**decades, scores.unit * 10**decades, points)
    return min(ppl_at(lm, scores, tau) for tau in grid)


def lm_logs(seed: int, count: int) -> Logs:
    logs: Logs = np.log(np.random.default_rng(seed).uniform(0.02, 0.9, count))
    return logs


def votes(seed: int, sharpness: float, scale: float = 1.0, count: int = 300) -> TargetVotes:
    """Neighbors that hold the target more often the nearer they are."""
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.exponential(size=(count, 16)), axis=1)
    right = rng.random((count, 16)) < 0.9 * np.exp(-sharpness * distances)
    tokens, targets = np.arange(V, dtype=np.int32), np.zeros(count, np.int32)
    ids = np.where(right, 0, rng.integers(1, V, (count, 16)))
    near = Neighbors(ids.astype(np.int64), (-scale * distances).astype(np.float32))
    return TargetVotes(NeighborsInMemory(near), tokens, targets)


def always(right: Sequence[bool]) -> TargetVotes:
    """Every query has the same neighbors, nearest first; those that are right hold the target."""
    rng = np.random.default_rng(0)
    scores = -np.sort(rng.uniform(0, 1, (400, len(right))).astype(np.float32), axis=1)
    near = Neighbors(np.tile(np.arange(len(right)), (400, 1)), scores)
    tokens = np.array(right, np.int32)
    return TargetVotes(NeighborsInMemory(near), tokens, np.ones(400, np.int32))


def taught(seed: int, tau: float, count: int) -> tuple[Head, QueryArrays]:
    """A head whose targets were drawn from itself at another τ, which is then the best one."""
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.standard_normal((V, D)).astype(np.float32))
    head = Head(("att",), weight, torch.ones(V, dtype=torch.int64), "l2", 1.0)
    states = rng.standard_normal((count, D)).astype(np.float32)
    logs = head.at_temperature(tau).logprobs(torch.from_numpy(states))
    drawn = torch.multinomial(logs.exp(), 1, generator=torch.Generator().manual_seed(seed))
    return head, QueryArrays(states, drawn[:, 0].numpy().astype(np.int32))


class Watched(TargetScores):
    """Other scores, with a note of how many queries each pass looked at."""

    def __init__(self, scores: TargetScores, passes: list[tuple[int, int]], first: int) -> None:
        self.scores, self.passes, self.first_look = scores, passes, first

    @property
    def unit(self) -> float:
        return self.scores.unit

    def logprobs(self, tau: float) -> Logs:
        return self.several([tau])[0]

    def several(self, taus: Sequence[float]) -> list[Logs]:
        logs = self.scores.several(taus)
        self.passes.append((len(logs[0]) if logs else 0, len(taus)))
        return logs

    def sample(self, rows: NDArray[np.integer]) -> TargetScores:
        return Watched(self.scores.sample(rows), self.passes, self.first_look or 0)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 4.0]))
def test_with_neighbors_it_is_no_worse_than_a_fine_grid(seed: int, sharpness: float) -> None:
    lm, scores = lm_logs(seed, 300), votes(seed, sharpness)
    best = best_temperature(lm, scores)
    assert best.ppl <= best_of_grid(lm, scores) * ENOUGH
    assert best.ppl == ppl_at(lm, scores, best.tau)
    assert_allclose(best.tau, best.units * scores.unit)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 1.0, 60.0]))
def test_with_a_learned_component_it_is_no_worse_than_a_fine_grid(seed: int, tau: float) -> None:
    head, asked = taught(seed, tau, 400)
    lm, scores = lm_logs(seed, 400), head.target_scores(asked)
    best = best_temperature(lm, scores)
    assert best.ppl <= best_of_grid(lm, scores) * ENOUGH


@pytest.mark.parametrize(
    ("right", "end"),
    [([False] * 4 + [True] * 4, "high"), ([True] + [False] * 7, "low"), ([False] * 8, "none")],
)
def test_the_best_may_be_at_an_end_or_nowhere(right: list[bool], end: str) -> None:
    lm, scores = np.log(np.full(400, 0.4)), always(right)
    best = best_temperature(lm, scores)
    assert best.ppl <= best_of_grid(lm, scores, decades=6) * ENOUGH
    if end == "high":
        assert best.units > 2**8
    elif end == "low":
        assert best.units < 2**-8
    else:
        assert (best.lam, best.ppl) == (0.0, perplexity(lm))


def test_a_best_far_behind_a_plateau_is_found() -> None:
    """Near the unit of τ nothing changes at all; a local search would stay there."""

    class Dip(TargetScores):
        unit = 1.0

        def logprobs(self, tau: float) -> Logs:
            dip = np.exp(-((np.log2(tau) - 6.3) ** 2) / 2)
            return np.full(100, np.log(0.01 + 0.6 * (dip if dip > 1e-4 else 0.0)))

        def sample(self, rows: NDArray[np.integer]) -> TargetScores:
            raise NotImplementedError

    lm = np.log(np.full(100, 0.3))
    best = best_temperature(lm, Dip(), precision=1.003)  # narrower than those of real components
    assert best.ppl <= best_of_grid(lm, Dip(), points=2000) * ENOUGH
    assert_allclose(np.log2(best.units), 6.3, atol=0.02)


def test_the_range_of_temperatures_widens_until_the_optimum_is_inside() -> None:
    """Votes that are right only when all count alike: the best τ is far above the spread."""
    points = temperature_sweep(np.log(np.full(400, 0.4)), always([False] * 4 + [True] * 4))
    assert min(points, key=lambda p: p.ppl).units > 2**8


def test_temperature_in_units_does_not_depend_on_the_scale_of_the_scores() -> None:
    lm = lm_logs(1, 300)
    small, large = (best_temperature(lm, votes(1, 1.0, scale)) for scale in (1.0, 1000.0))
    assert_allclose(small.units, large.units, rtol=1e-3)
    assert_allclose(small.tau * 1000, large.tau, rtol=1e-3)


def test_a_finer_search_is_no_worse() -> None:
    lm, scores = lm_logs(5, 300), votes(5, 1.0)
    coarse, fine = (best_temperature(lm, scores, precision=p) for p in (1.5, 1.001))
    assert fine.ppl <= best_temperature(lm, scores).ppl <= coarse.ppl


def test_given_temperatures_are_the_only_ones_that_are_tried() -> None:
    lm, scores = lm_logs(2, 300), votes(2, 1.0)
    points = temperature_sweep(lm, scores, [30.0, 0.5, 2.0])
    assert_allclose([p.tau for p in points], [0.5, 2.0, 30.0])
    for point in points:
        logs = scores.logprobs(point.tau)
        assert point.lam == fit_lambda(lm, logs)
        assert point.ppl == perplexity(mix(lm, logs, point.lam))
        assert_allclose(point.units * scores.unit, point.tau)


def test_points_are_in_order_and_no_temperature_is_tried_twice() -> None:
    points = temperature_sweep(lm_logs(3, 300), votes(3, 1.0))
    taus = [point.tau for point in points]
    assert taus == sorted(set(taus))
    assert 1.0 in [point.units for point in points]


@pytest.mark.parametrize(
    ("tau", "unit"), [(0.3, 1.0), (1.0, 1.0), (20.0, 1.0), (1.0, 1e-3), (1.0, 1e3)]
)
def test_a_first_look_at_some_queries_saves_passes_over_all(tau: float, unit: float) -> None:
    """Also where the best is outside of the first range, which must widen at the first look."""
    head, asked = taught(4, tau, 3000)
    lm, scores = lm_logs(4, 3000), head.at_temperature(unit).target_scores(asked)
    passes: list[tuple[int, int]] = []
    best = best_temperature(lm, Watched(scores, passes, 400))
    assert best.ppl <= best_of_grid(lm, scores, decades=5, points=100) * ENOUGH
    assert best.ppl <= ppl_at(lm, scores, scores.unit)
    on_some = [taus for queries, taus in passes if queries == 400]
    on_all = [taus for queries, taus in passes if queries == 3000]
    assert sum(on_some) >= 9
    assert on_all[0] <= 2
    everything: list[tuple[int, int]] = []
    best_temperature(lm, Watched(scores, everything, 3000))
    assert sum(on_all) < sum(taus for _, taus in everything)
    assert {queries for queries, _ in everything if queries} == {3000}


def test_the_first_look_of_a_learned_component_is_taken() -> None:
    head, asked = taught(6, 0.7, 2500)
    lm, scores = lm_logs(6, 2500), head.target_scores(asked)
    assert scores.first_look == 2048
    assert best_temperature(lm, scores).ppl <= best_of_grid(lm, scores, points=80) * ENOUGH


def test_all_entries_share_one_pass_for_several_temperatures() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((800, D)).astype(np.float32)
    tokens = (states[:, 0] > 0).astype(np.int32) + 2 * (states[:, 1] > 0.5)
    entries = EntriesInMemory(states[:100], tokens[:100], 4)
    asked = QueryArrays(states[100:], tokens[100:].astype(np.int32))
    scores = FullDatastore(entries, "att").target_scores(asked)
    lm = lm_logs(7, 700)
    assert scores.first_look is not None
    assert scores.first_look < 700
    best = best_temperature(lm, scores)
    assert best.ppl <= best_of_grid(lm, scores, points=60) * ENOUGH


def test_a_mixture_is_looked_at_once() -> None:
    head, asked = taught(8, 1.0, 200)
    other, _ = taught(9, 1.0, 1)
    mixture, lm = Mixture((head, other), (0.7, 0.3)), lm_logs(8, 200)
    (point,) = temperature_sweep(lm, mixture.target_scores(asked))
    logs = mixture.target_logprobs(asked)
    assert (point.tau, point.units) == (1.0, 1.0)
    assert point.lam == fit_lambda(lm, logs)
    assert point.ppl == perplexity(mix(lm, logs, point.lam))


def test_temperatures_that_cannot_be_are_refused() -> None:
    lm, scores = lm_logs(2, 300), votes(2, 1.0)
    with pytest.raises(UsageError, match="no temperature given: give at least one"):
        temperature_sweep(lm, scores, [])
    for tau in (0.0, -3.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="is out of range: choose a number above 0"):
            temperature_sweep(lm, scores, [1.0, tau])
