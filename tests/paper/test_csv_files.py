"""CSV files say what no record has alone: shares, overlaps, means over seeds, effects by LM."""

import csv
import io
from dataclasses import replace

import pytest

from knnlm_paper.conditions import KNN, Learned
from knnlm_paper.conditions.learned import LearnedMeasurement
from knnlm_paper.report.csv_files import MEAN, csv_files
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.constructed import base_numbers, documents_of, knn_measurement, results_of
from tests.paper.examples import EXAMPLES

PAPER = KNN(paper_retrieval(SMOKE_SCALE))
EXACT = KNN(exactly(PAPER.retrieval))
SUMS = {"base": [-50.0, -50.0], "calibrated": [-45.0, -45.0]}


def learned(ppl: float, total: float) -> LearnedMeasurement:
    """A component with this perplexity, and this log p of each document, at its own τ."""
    (measured,) = [e.measurement for e in EXAMPLES if e.condition == Learned()]
    point = replace(measured.own_tau, ppl=ppl)
    documents = documents_of(8, **SUMS, own_tau=[total, total])
    changed = replace(measured, own_tau=point, base=base_numbers(16, 8), documents=documents)
    assert isinstance(changed, LearnedMeasurement)
    return changed


@pytest.fixture(scope="module")
def results() -> Results:
    """Neighbors that gain 20 nats over the LM, and a head that gains 10 or, from another start,
    5."""
    near = knn_measurement(tokens=8, words=4, **SUMS, own_tau=[-40.0, -40.0])
    paper = replace(near, one_tau=replace(near.one_tau, helped="f000"))
    head, again = learned(8.0, -45.0), learned(6.0, -47.5)
    return results_of({EXACT: near, PAPER: paper, Learned(): head, Learned(seed=1): again})


def lines(results: Results, name: str) -> list[dict[str, str]]:
    text = csv_files(Evidence(results))[f"{name}.csv"]
    return list(csv.DictReader(io.StringIO(text)))


def line(results: Results, name: str, condition: str, part: str = "") -> dict[str, str]:
    every = lines(results, name)
    (found,) = [row for row in every if (row["condition"], row["part"]) == (condition, part)]
    return found


def test_a_condition_has_its_share_of_the_neighbors_gain(results: Results) -> None:
    row = line(results, "substitutes", Learned().name)
    assert float(row["own_tau.share_of_gain"]) == 0.5
    assert float(row["own_tau.share_of_gain_low"]) == pytest.approx(0.5)
    assert "on_calibrated.share_of_gain" not in row  # not among the sums over documents
    neighbors = line(results, "baselines", EXACT.name)
    assert float(neighbors["own_tau.share_of_gain"]) == 1.0


def test_several_seeds_have_a_line_of_their_means(results: Results) -> None:
    row = line(results, "substitutes", Learned().name, MEAN)
    assert float(row["own_tau.ppl"]) == 7.0
    assert (float(row["own_tau.lowest_ppl"]), float(row["own_tau.highest_ppl"])) == (6.0, 8.0)
    assert float(row["own_tau.change"]) == pytest.approx(7 / 10 - 1)
    assert float(row["own_tau.share_of_gain"]) == pytest.approx(0.375)
    assert row["own_tau.alone_valid_ppl"] == ""  # infinite, and so is the mean
    means = [each for each in lines(results, "substitutes") if each["part"] == MEAN]
    assert len(means) == 1
    assert MEAN not in {each["part"] for each in lines(results, "baselines")}


def test_overlap_is_where_two_settings_help_the_same_tokens(results: Results) -> None:
    assert float(line(results, "baselines", PAPER.name)["one_tau.overlap"]) == 1.0
    assert float(line(results, "baselines", EXACT.name)["one_tau.overlap"]) == 12 / 16


def test_effects_by_lm_have_the_share_of_a_head(results: Results) -> None:
    (row,) = lines(results, "regime-effects")
    assert (row["lm"], row["update"]) == ("main", "3")
    assert float(row["head.own_tau.share_of_gain"]) == 0.5
    assert float(row["neighbors.effect"]) == pytest.approx(2.718281828 ** (20 / 8) - 1)
    no_lm = results_of({Learned(): learned(8.0, -45.0)})
    assert "regime-effects.csv" not in csv_files(Evidence(no_lm))


def test_calibration_is_among_the_shares(results: Results) -> None:
    (row,) = [row for row in lines(results, "shares") if row["component"] == "calibration"]
    assert (float(row["share"]), row["over"]) == (0.5, "the LM")
