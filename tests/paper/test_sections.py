"""Tables of claims: their lines on constructed findings, and that a typo is an error instead of a
line that vanishes."""

from dataclasses import replace
from typing import Any

import pytest

from knnlm.errors import UsageError
from knnlm_paper.claims import Claim, Finding, Findings, Verdict
from knnlm_paper.claims.claim import CALIBRATED, ONE_TAU, OWN_TAU, TAU_1, At
from knnlm_paper.claims.deciding import not_measured
from knnlm_paper.report import sections as module
from knnlm_paper.report.changes import change_cell, paper_change, percent
from knnlm_paper.report.claim_tables import topics_table
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.sections import (
    HEADLINES,
    SECTIONS,
    WHOLE_GROUPS,
    all_sections,
    check_sections,
)
from knnlm_paper.scales import SCALES, Scale
from tests.paper.constructed import results_of

NOTHING = Evidence(results_of({}))


def found(
    at: At | None, effect: float, verdict: Verdict = "holds", topic: str = "a-beats-b", **more: Any
) -> Finding:
    """A finding of this effect per word, give or take 0.01, at two tokens a word."""
    claim = Claim(topic=topic, sentence="A beats B.", source="section 3", at=at, **more)
    return Finding(claim, effect, effect - 0.01, effect + 0.01, (effect,), verdict, 2.0)


def line(*findings: Finding) -> list[str]:
    """The cells of the one line that findings on one topic make."""
    table = topics_table(Findings({"retrieval": list(findings)}), [findings[0].claim.topic])
    (row,) = table.rows
    return [cell.line().replace("\N{NO-BREAK SPACE}", " ") for cell in row]


def test_a_line_has_paper_and_ours_side_by_side() -> None:
    cells = line(
        found(ONE_TAU, 0.25, paper=0.25), found(OWN_TAU, 1 / 9), found(CALIBRATED, -1 / 11)
    )
    assert cells[0] == "A beats B (a-beats-b)"
    assert cells[1] == "−20.0 %"
    assert cells[2].startswith("−20.0 % (−20.6 to −19.4 %)")
    assert [cell[:7] for cell in cells[3:5]] == ["−10.0 %", "+10.0 %"]
    assert cells[5] == "holds"


def test_the_verdict_is_that_at_ones_own_temperature() -> None:
    at_one, own = found(ONE_TAU, 0.25), found(OWN_TAU, 0.001, "does not hold")
    assert line(at_one, own)[5] == "does not hold (at one τ for all: holds)"
    assert line(at_one, replace(own, verdict="holds"))[5] == "holds"
    assert line(at_one)[5] == "holds"
    assert line(found(CALIBRATED, 0.0, "undecided"))[5] == "undecided"
    assert line(found(TAU_1, 0.25, "undecided"), own)[5].endswith("(at one τ for all: undecided)")


def test_one_temperature_for_all_is_preferred_to_one() -> None:
    cells = line(found(TAU_1, 1.0), found(ONE_TAU, 0.25), found(OWN_TAU, 0.25))
    assert cells[2].startswith("−20.0 %")


def test_what_was_not_measured_has_no_line_and_no_number() -> None:
    missing = not_measured(found(OWN_TAU, 0.0).claim)
    nothing = topics_table(Findings({"retrieval": [missing]}), ["a-beats-b"])
    assert nothing.rows == ()
    assert line(found(ONE_TAU, 0.25), missing)[3] == ""
    assert change_cell(None) == change_cell(missing) == ("", "", "")


def test_a_change_is_per_word_or_per_token() -> None:
    finding = found(OWN_TAU, 0.21)
    assert change_cell(finding).text == percent(1 / 1.21 - 1)
    assert change_cell(finding, per="token").text == percent(1 / 1.1 - 1)  # two tokens a word
    assert (paper_change(None), paper_change(0.25)) == ("", percent(-0.2))


@pytest.mark.parametrize(
    ("unit", "text", "told"),
    [
        ("slope", "+0.2500", "the slope of the share"),
        ("difference", "+25.0 %", "in the last third of the places"),
        ("share", "+25.0 %", "the share of the vocabulary that cannot"),
    ],
)
def test_what_is_no_change_of_perplexity_is_explained(unit: Any, text: str, told: str) -> None:
    finding = found(None, 0.25, unit=unit)
    assert change_cell(finding).text.replace("\N{NO-BREAK SPACE}", " ") == text
    table = topics_table(Findings({"retrieval": [finding]}), ["a-beats-b"])
    assert told in table.note
    plain = topics_table(Findings({"retrieval": [found(OWN_TAU, 0.25)]}), ["a-beats-b"])
    assert plain.note == ""


def test_a_topic_that_no_claim_has_is_an_error() -> None:
    with pytest.raises(UsageError, match="unknown topic 'a-beat-b': did you mean 'a-beats-b'"):
        topics_table(Findings({"retrieval": [found(OWN_TAU, 0.1)]}), ["a-beat-b"])
    for headline in HEADLINES:
        assert NOTHING.findings.of_topic(headline)


def test_a_headline_with_a_typo_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEADLINES", (*HEADLINES[:-1], "larger-lms-gain-les"))
    with pytest.raises(UsageError, match="did you mean 'larger-lms-gain-less'"):
        all_sections(NOTHING)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_topic_has_a_section_at_every_scale(scale: Scale) -> None:
    check_sections(Evidence(results_of({}, scale)), SECTIONS)


@pytest.mark.parametrize("number", range(len(SECTIONS)))
def test_no_section_can_be_left_out(number: int) -> None:
    fewer = [*SECTIONS[:number], *SECTIONS[number + 1 :]]
    with pytest.raises(ValueError, match="no section has"):
        check_sections(NOTHING, fewer)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"label": "tab:knn_baseline"}, "unknown label 'tab:knn_baseline': did you mean"),
        ({"label": "tab:mos_results"}, "unknown label 'tab:mos_results'"),
        ({"sources": ("section 33",)}, "unknown source 'section 33': did you mean 'section 3'"),
        ({"sources": ("appendix E.5",)}, "unknown source 'appendix E.5'"),
        ({"experiments": ("baseline",)}, "unknown experiment 'baseline': did you mean"),
    ],
)
def test_a_typo_in_a_section_is_an_error(changes: dict[str, Any], told: str) -> None:
    wrong = [replace(SECTIONS[0], **changes), *SECTIONS[1:]]
    with pytest.raises(UsageError, match=told):
        all_sections(NOTHING, wrong)


def test_a_table_that_another_label_hides_is_an_error() -> None:
    softmaxes = next(s for s in SECTIONS if s.label == "tab:mos_results")
    hidden = [replace(s, label="appendix C.2") if s is softmaxes else s for s in SECTIONS]
    with pytest.raises(ValueError, match="no section has the table tab:mos_results"):
        all_sections(NOTHING, hidden)


def test_no_topic_is_in_two_sections_of_the_paper() -> None:
    twice = [*SECTIONS, SECTIONS[0]]
    with pytest.raises(UsageError, match="unknown source 'section 3'"):
        check_sections(NOTHING, twice)


def test_nothing_measured_makes_no_sections() -> None:
    assert all_sections(NOTHING) == []
    assert set(WHOLE_GROUPS) < set(NOTHING.findings.groups)


def test_findings_of_a_topic_are_all_that_have_it() -> None:
    of_topic = NOTHING.findings.of_topic("index-beats-exact")
    ats = [finding.claim.at.id for finding in of_topic if finding.claim.at is not None]
    assert ats == ["tau-1", "one-tau", "own-tau", "calibrated"]
