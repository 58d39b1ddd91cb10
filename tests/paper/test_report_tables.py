"""Tables of the report: substitutes and hypotheses."""

from knnlm_paper.claims.other_findings import reachable_findings
from knnlm_paper.conditions import Learned, Reachability
from knnlm_paper.conditions.reachability import ReachabilityMeasurement
from knnlm_paper.report.hypotheses import hypotheses
from knnlm_paper.report.shares import points
from knnlm_paper.report.substitutes import beyond_table, heads_table, rates_table
from knnlm_paper.report.words import outcome
from tests.paper.conftest import Smoke
from tests.paper.constructed import LM, results_of


def test_the_report_shows_substitutes(smoke: Smoke) -> None:
    table = heads_table(smoke.results)
    assert [row[0].text for row in table.rows[1:4]] == [
        Learned().label,
        Learned(metric="l2").label,
        Learned(state="ffn").label,
    ]
    assert table.rows[0][0].text == "the calibrated LM"
    assert any(row[0].text.startswith("paper") for row in table.rows)
    shown = points(smoke.results)
    assert {p.family for p in shown} >= {
        "embeddings on att",
        "clusters",
        "taught by neighbours",
        "combinations",
    }
    assert all(p.parameters > 0 for p in shown)
    assert len(rates_table(smoke.results).rows) >= 6


def test_all_seeds_of_a_substitute_are_one_line(smoke: Smoke) -> None:
    names = [line[0].text for line in beyond_table(smoke.results).rows]
    assert len(names) == len(set(names)) > 1


def test_the_report_shows_every_hypothesis(smoke: Smoke) -> None:
    text = (smoke.folder / "RESULTS.md").read_text()
    table = text.split("## What it is not")[1].split("\n## ")[0]
    assert table.count("\n| ") == 1 + len(hypotheses(smoke.results))
    assert "nan" not in table


def test_a_word_that_cannot_be_chosen_is_not_called_too_small_to_count() -> None:
    measurement = ReachabilityMeasurement(
        lm=LM, vocabulary=4096, unreachable=1, linear_programs=3, examples=("the",)
    )
    f = reachable_findings(results_of({Reachability(): measurement}))[0]
    assert outcome(f) == "does not hold"
