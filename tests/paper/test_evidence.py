"""Titles and sentences say what results say: each check fails where what it relies on changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.claims import Claim, Finding, Findings, Verdict, all_findings
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.messages import FIGURES, message, title
from knnlm_paper.report.regimes import Regime
from knnlm_paper.results import Results
from knnlm_paper.scales import LAPTOP_SCALE, SMOKE_SCALE, Scale
from tests.paper.constructed import results_of

LAPTOP = Path(__file__).parents[2] / "docs" / "results" / "laptop"
RELIES_ON = {
    "ladder": ("knn-helps-exact@own-tau", "knn-helps-exact@calibrated"),
    "reasons": (
        "att-beats-ffn@own-tau",
        "att-beats-ffn-exact@own-tau",
        "index-beats-exact@own-tau",
        "index-neighbors-beat-exact-ones@own-tau",
    ),
    "shares": (
        "all-entries-beat-the-nearest-att@calibrated",
        "all-entries-beat-the-nearest-ffn@calibrated",
    ),
    "beside": (
        "neighbors-help-1-lm@calibrated",
        "neighbors-help-2-lms@calibrated",
        "neighbors-help-3-lms@calibrated",
        "neighbors-help-4-lms@calibrated",
        "neighbors-help-beside-memory@calibrated",
    ),
    "sizes": ("last-entries-help@own-tau", "last-entries-help-exact@own-tau"),
    "temperatures": (
        "own-tau-beats-tau-1-rescored",
        "own-tau-beats-tau-1-exact",
        "tau-1-suits-the-index",
    ),
    "ensembles": ("neighbors-beat-lm-3@calibrated", "neighbors-beat-lm-4@calibrated"),
}
"""The claims behind the titles of figures."""
OPPOSITE: dict[str, Verdict] = {"holds": "does not hold", "does not hold": "holds"}


@pytest.fixture(scope="module")
def committed() -> Evidence:
    return Evidence(Results.open(LAPTOP))


LMs = dict[tuple[str, int | None], float]


def changed(evidence: Evidence, claim_id: str, **fields: Any) -> Evidence:
    """The same with one finding that is another."""
    groups = {
        group: [replace(f, **fields) if f.claim.id == claim_id else f for f in members]
        for group, members in evidence.findings.groups.items()
    }
    other = Evidence(evidence.results, Findings(groups))
    other.__dict__["regimes"] = evidence.regimes
    return other


def of_lms(changes: LMs, scale: Scale = LAPTOP_SCALE) -> Evidence:
    """LMs in which every effect changes perplexity by so much, give or take 1 %."""
    evidence = Evidence(results_of({}, scale))
    evidence.__dict__["regimes"] = [regime(*lm, value) for lm, value in changes.items()]
    return evidence


def regime(lm: str, step: int | None, change: float) -> Regime:
    claim = Claim(topic="regime", sentence="", source="")
    effect, low, high = (1 / (1 + each) - 1 for each in (change, change + 0.01, change - 0.01))
    finding = Finding(claim, effect, low, high, (effect,), "holds")
    return Regime(Checkpoint(lm, step), lm, 100.0, 90.0, finding, finding, finding, finding)


WIDTHS: LMs = {(lm, None): -0.3 + 0.05 * n for n, lm in enumerate(LAPTOP_SCALE.widths)}
COURSES: LMs = {
    (lm, step): -0.5 + step / 4000 for lm, step in LAPTOP_SCALE.checkpoints if step is not None
}
ALL_LMS: LMs = {**COURSES, **WIDTHS}


@pytest.mark.parametrize("figure", FIGURES)
def test_committed_results_say_what_titles_do(figure: str, committed: Evidence) -> None:
    assert title(committed, figure) == message(committed, figure)


@pytest.mark.parametrize(
    ("figure", "claim_id"), [(figure, each) for figure, ids in RELIES_ON.items() for each in ids]
)
def test_a_title_does_not_outlive_its_findings(
    figure: str, claim_id: str, committed: Evidence
) -> None:
    said = message(committed, figure)
    verdict = committed.findings[claim_id].verdict
    for other in (OPPOSITE[verdict], "undecided", "not measured"):
        evidence = changed(committed, claim_id, verdict=other)
        assert message(evidence, figure) is None
        assert title(evidence, figure) != said


def test_a_ladder_whose_gains_differ_has_no_message(committed: Evidence) -> None:
    larger = changed(committed, "knn-helps-exact@calibrated", effect=0.3, low=0.28, high=0.32)
    assert message(larger, "ladder") is None


def test_a_second_lm_that_beats_neighbors_is_worth_more(committed: Evidence) -> None:
    claim_id = "second-lm-beats-neighbors@calibrated"
    assert message(changed(committed, claim_id, verdict="does not hold"), "ensembles")
    assert message(changed(committed, claim_id, verdict="holds"), "ensembles") is None


@pytest.mark.parametrize("figure", FIGURES)
def test_nothing_measured_says_nothing(figure: str) -> None:
    assert message(Evidence(results_of({}, LAPTOP_SCALE)), figure) is None
    assert message(Evidence(results_of({}, SMOKE_SCALE)), figure) is None


def test_results_of_another_scale_have_no_message(committed: Evidence) -> None:
    toy = replace(committed.results.scale, name="smoke")
    evidence = Evidence(Results(toy, committed.results.records), committed.findings)
    assert [message(evidence, figure) for figure in FIGURES] == [None] * len(FIGURES)


def test_an_index_ahead_in_one_lm_is_noticed() -> None:
    none = of_lms(dict.fromkeys(ALL_LMS, 0.02))
    assert none.lms_ahead("by_index") == []
    assert message(none, "regimes-index")
    one = of_lms({**dict.fromkeys(ALL_LMS, 0.02), ("width-64", None): -0.02})
    assert one.lms_ahead("by_index") == [Checkpoint("width-64")]
    assert message(one, "regimes-index") is None
    unsure = of_lms({**dict.fromkeys(ALL_LMS, 0.02), ("width-64", None): -0.005})
    assert message(unsure, "regimes-index")  # its interval includes zero


def test_att_may_be_ahead_in_the_least_trained_lm_only() -> None:
    level = dict.fromkeys(ALL_LMS, 0.02)
    assert message(of_lms({**level, ("main", 100): -0.1}), "regimes-att")
    assert message(of_lms(level), "regimes-att") is None  # "only" where there is none
    for lm in (("main", None), ("main", 400), ("no-dropout", 200)):
        both = {**level, ("main", 100): -0.1, lm: -0.1}
        assert message(of_lms(both), "regimes-att") is None


def test_the_gain_falls_with_width_and_training() -> None:
    evidence = of_lms(ALL_LMS)
    assert evidence.gain_falls_with_width()
    assert evidence.gain_falls_with_training()
    assert message(evidence, "regimes-gain")
    overfitted = of_lms({**ALL_LMS, ("overfitted", 2000): -0.9})
    assert message(overfitted, "regimes-gain")  # the message is not about what came after the best


@pytest.mark.parametrize("lm", [("width-128", None), ("main", None), ("width-384", None)])
def test_a_wide_lm_that_gains_most_ends_the_message(lm: tuple[str, int | None]) -> None:
    evidence = of_lms({**ALL_LMS, lm: -0.4})
    assert not evidence.gain_falls_with_width()
    assert message(evidence, "regimes-gain") is None


@pytest.mark.parametrize("lm", [("main", 800), ("no-dropout", 400)])
def test_a_trained_lm_that_gains_most_ends_the_message(lm: tuple[str, int | None]) -> None:
    evidence = of_lms({**ALL_LMS, lm: -0.6})
    assert evidence.gain_falls_with_width()
    assert not evidence.gain_falls_with_training()
    assert message(evidence, "regimes-gain") is None


def test_a_gain_that_falls_within_its_interval_does_not_fall() -> None:
    flat: LMs = {(lm, None): -0.3 + 0.001 * n for n, lm in enumerate(LAPTOP_SCALE.widths)}
    assert not of_lms({**COURSES, **flat}).gain_falls_with_width()
    del flat["width-64", None]
    assert not of_lms({**COURSES, **flat}).gain_falls_with_width()  # one was not measured


def test_behind_and_level_are_about_intervals(committed: Evidence) -> None:
    claim_id = "att-beats-ffn@own-tau"
    ahead = changed(committed, claim_id, effect=0.02, low=0.01, high=0.03)
    unsure = changed(committed, claim_id, effect=0.005, low=-0.01, high=0.02)
    behind = changed(committed, claim_id, effect=-0.02, low=-0.03, high=-0.01)
    assert [e.behind(claim_id) for e in (ahead, unsure, behind)] == [False, False, True]
    assert [e.level(claim_id) for e in (ahead, unsure, behind)] == [False, True, False]


def test_a_further_index_that_is_ahead_is_noticed(committed: Evidence) -> None:
    assert len(committed.other_indexes) == len(LAPTOP_SCALE.factories)
    assert committed.no_index_ahead()
    for finding in committed.other_indexes:
        better = changed(committed, finding.claim.id, effect=0.05, low=0.04, high=0.06)
        assert not better.no_index_ahead(), finding.claim.id
    assert not Evidence(results_of({}, LAPTOP_SCALE)).no_index_ahead()  # nothing is known


def test_findings_are_decided_where_they_are_not_given(committed: Evidence) -> None:
    again = Evidence(committed.results, all_findings(committed.results))
    assert dict(again.findings) == dict(committed.findings)
