"""Findings that are no sums of log-likelihoods: places, tokens, words; trends and shares."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from knnlm_paper.claims import Finding
from knnlm_paper.claims.other_findings import place_findings, reachable_findings, word_findings
from knnlm_paper.claims.shares import NOT_MEASURED, share_of_calibration, share_of_gain
from knnlm_paper.claims.trends import trend
from knnlm_paper.conditions import KNN, Learned, PaperCondition, Reachability
from knnlm_paper.conditions.learned import LearnedMeasurement
from knnlm_paper.conditions.place_in_text import (
    Dependence,
    PlaceInTextMeasurement,
    Quantities,
    Third,
    Thirds,
)
from knnlm_paper.conditions.reachability import ReachabilityMeasurement
from knnlm_paper.conditions.word_types import WordType, WordTypesMeasurement
from knnlm_paper.conditions.word_types.types import entropies
from knnlm_paper.experiments import ruled_out
from knnlm_paper.experiments import words as words_experiment
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.conftest import Smoke
from tests.paper.constructed import LM, documents_of, knn_measurement, results_of
from tests.paper.examples import EXAMPLES

PLACES = ruled_out.location(SMOKE_SCALE).conditions
NEAR = KNN(exactly(paper_retrieval(SMOKE_SCALE)))
LEARNED: LearnedMeasurement = next(
    e.measurement for e in EXAMPLES if e.condition.kind == Learned.kind
)


def by_id(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.claim.id: finding for finding in findings}


def place(first: list[float], last: list[float], tokens: float = 50.0) -> PlaceInTextMeasurement:
    """Documents with these sums in the first and the last third of their places."""
    thirds = Thirds(
        first=Third(tokens=(tokens,) * len(first), sum=tuple(first)),
        last=Third(tokens=(tokens,) * len(last), sum=tuple(last)),
    )
    same = Dependence(tokens=1500, correlation=None, ranges=(), thirds=thirds)
    both = Quantities(loss=same, gain=same)
    return PlaceInTextMeasurement(lm=LM, window=both, document=both)


def test_a_gain_that_grows_with_the_place_is_found_and_none_is_not() -> None:
    for gain, wanted in ((5.0, "does not hold"), (0.0, "holds")):
        rng = np.random.default_rng(0)
        first, last = ((3 + grown + 0.1 * rng.normal(size=30)).tolist() for grown in (0.0, gain))
        found = by_id(place_findings(results_of(dict.fromkeys(PLACES, place(first, last)))))
        f = found["gain-does-not-depend-on-the-document"]
        assert f.verdict == wanted
        assert f.effect == pytest.approx(np.expm1(gain / 50), abs=0.005)


def test_places_are_two_and_so_are_quantities() -> None:
    found = by_id(place_findings(results_of({PLACES[0]: place([3.0] * 9, [3.0] * 9)})))
    assert list(found) == [
        "loss-does-not-depend-on-the-window",
        "gain-does-not-depend-on-the-window",
        "loss-does-not-depend-on-the-document",
        "gain-does-not-depend-on-the-document",
    ]
    assert {f.verdict for f in found.values()} == {"holds"}
    assert {len(f.seeds) for f in found.values()} == {1}


def test_places_of_several_seeds_are_averaged_by_document() -> None:
    """What one seed adds to a document the other takes away, so no interval is left."""
    noise = np.random.default_rng(1).normal(0, 2, 30)
    flat = [3.0] * 30
    measured = [place(flat, (13.0 + sign * noise).tolist()) for sign in (1, -1)]
    found = by_id(place_findings(results_of(dict(zip(PLACES, measured, strict=True)))))
    f = found["loss-does-not-depend-on-the-window"]
    assert (f.low, f.effect, f.high) == pytest.approx([np.expm1(0.2)] * 3)
    by = noise.mean() / 50
    assert f.seeds == pytest.approx((np.expm1(0.2 + by), np.expm1(0.2 - by)))
    (alone,) = {
        f.high - f.low
        for f in place_findings(results_of({PLACES[0]: measured[0]}))
        if f.claim.id == "loss-does-not-depend-on-the-window"
    }
    assert alone > 0.02


def test_a_place_that_nothing_stands_at_is_not_measured() -> None:
    for results in (results_of({}), results_of({PLACES[0]: place([0.0] * 3, [0.0] * 3, 0.0)})):
        found = place_findings(results)
        assert [f.verdict for f in found] == ["not measured"] * 4
        assert all(math.isnan(f.effect) for f in found)


@pytest.mark.parametrize(("unreachable", "wanted"), [(0, "holds"), (1, "does not hold")])
def test_a_word_that_cannot_be_chosen_is_no_small_effect(unreachable: int, wanted: str) -> None:
    measurement = ReachabilityMeasurement(
        lm=LM, vocabulary=4096, unreachable=unreachable, linear_programs=3, examples=("the",)
    )
    found = reachable_findings(results_of({Reachability(): measurement}))
    f = by_id(found)["every-token-can-win-main"]
    assert f.verdict == wanted
    assert f.claim.sense == "same"  # so none is too small to count
    assert (f.effect, f.low, f.high) == (unreachable / 4096,) * 3
    others = [f for f in found if f.claim.id != "every-token-can-win-main"]
    assert [f.claim.id for f in others] == [
        "every-token-can-win-seed-1",
        "every-token-can-win-width-16",
    ]
    assert {f.verdict for f in others} == {"not measured"}


def words_with(helped_more: Callable[[int, int], float], count: int = 72) -> Results:
    """Words of lengths 1 to 12 and again, whom exact neighbors help more by a function of length
    and round; their other attributes have no part in it."""
    (condition,) = words_experiment.experiment(SMOKE_SCALE).conditions
    rng = np.random.default_rng(0)
    types = tuple(
        WordType(
            token=f"w{i}",
            occurrences=5,
            length=1 + i % 12,
            forward=float(rng.normal()),
            backward=float(rng.normal()),
            exact=0.5 + helped_more(1 + i % 12, i // 12),
            approximate=0.5,
        )
        for i in range(count)
    )
    return results_of({condition: WordTypesMeasurement(types=types)})


@pytest.mark.parametrize(
    ("slope", "wanted"), [(-0.01, "holds"), (0.01, "does not hold"), (0.0, "undecided")]
)
def test_words_that_gain_from_an_index_are_found(slope: float, wanted: str) -> None:
    def helped_more(length: int, again: int) -> float:
        return slope * length + 0.01 * (-1) ** again  # the noise is the same for every length

    found = by_id(word_findings(words_with(helped_more)))
    f = found["longer-words-gain-from-an-index"]
    assert f.claim.unit == "slope"
    assert f.low < -slope < f.high
    assert f.effect == pytest.approx(-slope, abs=1e-9)
    assert f.verdict == wanted
    assert list(found)[1:] == [
        "varied-followers-gain-from-an-index",
        "varied-predecessors-gain-from-an-index",
    ]


@pytest.mark.parametrize("count", [0, 9])
def test_too_few_words_are_not_measured(count: int) -> None:
    found = word_findings(words_with(lambda length, _: 0.1 * length, count))
    assert [f.verdict for f in found] == ["not measured"] * 3
    assert [f.verdict for f in word_findings(results_of({}))] == ["not measured"] * 3


def test_appendix_d_becomes_findings(smoke: Smoke) -> None:
    found = word_findings(smoke.results)
    assert [f.claim.source for f in found] == ["appendix D"] * 3
    assert all(f.low <= f.effect <= f.high for f in found)


def test_entropies_are_those_of_the_bigrams() -> None:
    given, other = np.array([0, 0, 0, 0, 1, 1]), np.array([5, 5, 6, 7, 2, 2])
    found = entropies(given, other, 8)
    assert found[0] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(4))
    assert found[1] == 0
    assert found[3] == 0


def test_a_trend_is_found_with_its_interval() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 200)
    found = trend(list(x), list(2 - 0.5 * x + rng.normal(0, 1, 200)))
    assert found.low < -0.5 < found.high
    assert found.high < 0
    assert found.intercept == pytest.approx(2, abs=0.5)


@given(st.lists(st.integers(-20, 20), min_size=4, max_size=12), st.floats(-3, 3), st.floats(-3, 3))
def test_points_on_a_line_have_its_slope(x: list[int], slope: float, intercept: float) -> None:
    assume(len(set(x)) > 3)
    found = trend(x, [intercept + slope * each for each in x], samples=50)
    assert found.slope == pytest.approx(slope, abs=1e-9)
    assert found.intercept == pytest.approx(intercept, abs=1e-8)


def test_a_trend_of_one_x_is_flat() -> None:
    assert trend([2.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]) == (0.0, 3.0, 0.0, 0.0)


def gains(near: float, *heads: float, calibrated: float = 0.0) -> Results:
    """Neighbors and seeds of a head that gain so much in each of six documents."""
    base = [-500.0] * 6

    def sums(nats: float) -> dict[str, Any]:
        own = [each + nats for each in base]
        return {"base": base, "calibrated": [each + calibrated for each in base], "own_tau": own}

    learned: dict[PaperCondition[Any], Any] = {
        Learned(seed=seed): replace(LEARNED, documents=documents_of(100, **sums(nats)))
        for seed, nats in enumerate(heads)
    }
    return results_of({NEAR: knn_measurement(**sums(near)), **learned})


@given(st.floats(1, 40), st.floats(-40, 40))
def test_a_share_of_known_size_is_found(near: float, head: float) -> None:
    found = share_of_gain(gains(near, head), [Learned()], NEAR)
    assert found == pytest.approx([head / near] * 3, abs=1e-9)


def test_shares_of_several_seeds_are_of_their_mean() -> None:
    results = gains(20.0, 10.0, 4.0)
    seeds = results.learning_seeds(Learned())
    assert share_of_gain(results, seeds, NEAR).value == pytest.approx(0.35)
    missing = [*seeds, Learned(seed=2)]
    assert share_of_gain(results, missing, NEAR).value == pytest.approx(0.35)


def test_a_share_over_the_calibrated_lm_is_of_what_is_left() -> None:
    results = gains(20.0, 15.0, calibrated=10.0)
    assert share_of_gain(results, [Learned()], NEAR, base="calibrated").value == pytest.approx(0.5)
    assert share_of_calibration(results, NEAR).value == pytest.approx(0.5)


@pytest.mark.parametrize("near", [0.0, -5.0])
def test_there_is_no_share_of_nothing(near: float) -> None:
    assert share_of_gain(gains(near, 10.0), [Learned()], NEAR) is NOT_MEASURED


def test_a_share_of_what_was_not_measured_is_none() -> None:
    results = gains(20.0, 10.0)
    assert share_of_gain(results, [Learned(seed=99)], NEAR) is NOT_MEASURED
    assert share_of_gain(results.only([Learned()]), [Learned()], NEAR) is NOT_MEASURED
    assert share_of_gain(results, [Learned()], NEAR, "one_tau") is NOT_MEASURED


def test_a_share_is_the_ratio_of_the_gains(smoke: Smoke) -> None:
    knn, head, results = KNN(exactly(paper_retrieval(smoke.scale))), Learned(), smoke.results
    found = share_of_gain(results, [head], knn)
    gains = [np.log(results.ppl(c, "base") / results.ppl(c, "own_tau")) for c in (head, knn)]
    assert found.value == pytest.approx(gains[0] / gains[1], rel=1e-4)
    assert found.low < found.value < found.high
    assert share_of_gain(results, [knn], knn).value == 1
    assert np.isnan(share_of_gain(results, [Learned(seed=99)], knn).value)
