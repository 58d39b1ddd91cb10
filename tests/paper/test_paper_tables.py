"""Tables of settings and of LMs on constructed results: one unit each, and numbers that are
known."""

import math
from dataclasses import replace
from typing import Any

import pytest

from knnlm.report.document import Table
from knnlm_paper.conditions import KNN, PaperCondition
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.figures import ladder, reasons, regimes_figures, shares_figure
from knnlm_paper.report.paper_tables import SETTINGS, settings_table
from knnlm_paper.report.regimes import all_regimes, regimes_table
from knnlm_paper.report.sections import all_sections, scope
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.constructed import knn_measurement, results_of

INDEX = KNN(paper_retrieval(SMOKE_SCALE))
EXACT = KNN(exactly(INDEX.retrieval))
FFN = KNN(replace(EXACT.retrieval, state="ffn"))
NATS = {"base": -500.0, "calibrated": -450.0}


def gaining(own: float, calibrated: float = 0.0, ppl: float = 5.0) -> Any:
    """Neighbors that gain so many nats in each of four documents of 100 tokens and 50 words."""
    sums = {
        **NATS,
        "own_tau": NATS["base"] + own,
        "on_calibrated": NATS["calibrated"] + calibrated,
    }
    of_documents: dict[str, Any] = {point: [value] * 4 for point, value in sums.items()}
    measurement = knn_measurement(**of_documents)
    return replace(measurement, own_tau=replace(measurement.own_tau, ppl=ppl))


def rows(table: Table) -> dict[str, list[str]]:
    """The lines of a table by their first cell."""
    texts = [[cell.line().replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.rows]
    return {line[0]: line[1:] for line in texts}


def change(nats: float, units: int) -> str:
    """A change of perplexity by so many nats in so many tokens or words, with its interval."""
    percent = f"{100 * math.expm1(-nats / units):+.1f}".replace("-", "−")
    return f"{percent} % ({percent} to {percent} %)"


def table_1(*conditions: tuple[PaperCondition[Any], Any]) -> dict[str, list[str]]:
    return rows(settings_table(results_of(dict(conditions)), "tab:knn_baselines"))


def test_a_setting_has_perplexities_and_changes_per_word() -> None:
    lines = table_1((INDEX, gaining(10.0, 5.0)))
    paper, paper_change, *ours = lines[INDEX.retrieval.label]
    assert (paper, paper_change) == ("19.174", "−11.8 %")
    assert ours == ["25.0", change(10, 50), change(5, 50)]  # 5.0 per token, two tokens a word


def test_a_setting_of_several_seeds_is_their_mean() -> None:
    second = INDEX.with_lm("seed-1")
    lines = table_1((INDEX, gaining(10.0, ppl=4.0)), (second, gaining(20.0, ppl=6.0)))
    ours = lines[INDEX.retrieval.label][2:4]
    assert ours == ["26.0", change(15, 50)]  # 16 and 36 per word


def test_a_setting_that_was_not_measured_has_the_papers_numbers_only() -> None:
    lines = table_1((INDEX, gaining(10.0)))
    empty = [line for name, line in lines.items() if name != INDEX.retrieval.label]
    assert len(empty) == 7
    assert all(line[2:] == ["", "", ""] for line in empty)
    assert ["21.101", "−3.0 %", "", "", ""] in empty


@pytest.mark.parametrize("label", SETTINGS)
def test_a_table_of_which_nothing_was_measured_is_empty(label: str) -> None:
    table = settings_table(results_of({}), label)
    assert table.rows == ()
    assert table.note == "Perplexities and changes are per word."
    assert not any("per " in column.name for column in table.columns)


def test_a_label_without_settings_has_no_table() -> None:
    assert settings_table(results_of({EXACT: gaining(10.0)}), "fig:datastore_size").rows == ()


def test_lms_that_the_paper_measured_per_token_say_so() -> None:
    lines = rows(settings_table(results_of({INDEX: gaining(10.0)}), "tab:knn_other_models"))
    assert "Ours (268M)" in lines
    assert [name for name in lines if "GPT2" in name] == [
        "Distilled-GPT2 (82M, per token)",
        "GPT2-small (117M, per token)",
        "GPT2-medium (345M, per token)",
        "GPT2-large (774M, per token)",
    ]
    assert lines["main"][2:4] == ["25.0", change(10, 50)]


def everything() -> Results:
    """One LM: neighbors gain 20 nats a document, an index loses 1 of them, ffn gains 2 more."""
    return results_of(
        {INDEX: gaining(19.0, 9.0), EXACT: gaining(20.0, 10.0), FFN: gaining(22.0, 10.0)}
    )


def test_lms_are_compared_per_token() -> None:
    results = everything()
    (regime,) = all_regimes(results)
    assert regime.calibration == pytest.approx(-0.1)  # from 10 to 9
    assert regime.neighbors.per_token.value == pytest.approx(math.expm1(-0.2))
    table = regimes_table([regime])
    assert "per token" in table.note
    (cells,) = rows(table).values()
    effects = [change(20, 100), change(10, 100), change(-2, 100), change(-1, 100)]
    assert cells == ["10.0", "−10.0 %", *effects]


def test_the_effects_of_an_lm_are_its_own_whatever_seeds_there_are() -> None:
    seed = EXACT.with_lm("seed-1")
    both = results_of({EXACT: gaining(20.0, 10.0), seed: gaining(60.0, 30.0)})
    main, second = all_regimes(both)
    assert (main.lm.name, second.lm.name) == ("main", "seed-1")
    assert main.neighbors.per_token.value == pytest.approx(math.expm1(-0.2))
    assert second.neighbors.per_token.value == pytest.approx(math.expm1(-0.6))
    assert main.att.verdict == main.by_index.verdict == "not measured"


def test_figures_have_what_was_measured() -> None:
    evidence = Evidence(everything())
    drawn = ladder(evidence)
    assert drawn is not None
    for number in ("10.0", "5.0", "9.0", "8.0"):  # alone, with neighbors, calibrated, both
        assert f">{number}<" in drawn.svg
    assert [figure.name for figure in regimes_figures(evidence)] == [
        "regimes-index",
        "regimes-att",
        "regimes-gain",
    ]
    both = reasons(evidence)
    assert both is not None
    assert "an index instead of exact" in both.svg
    assert "a softmax learned on att" not in both.svg  # was not measured
    assert shares_figure(evidence) is None


def test_figures_of_nothing_are_not_drawn() -> None:
    nothing = Evidence(results_of({}))
    assert ladder(nothing) is reasons(nothing) is shares_figure(nothing) is None
    assert regimes_figures(nothing) == []


def test_a_report_of_little_has_the_sections_that_it_can_fill() -> None:
    results = everything()
    titles = [section.title for section in all_sections(Evidence(results))]
    assert titles[:2] == ["Findings", "Table 1: which hidden state, which similarity"]
    assert titles[-1] == "The LMs"
    assert "Appendix C.3: clusters" not in titles
    assert "400 tokens of the test text, as many as 200 words, in 4 documents" in scope(results)
    assert scope(results_of({})) == ""
