"""The report: what it shows is what records say, and it stays readable."""

import csv
import io
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from knnlm_paper.claims import all_findings
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments import all_experiments, chosen
from knnlm_paper.report.claim_tables import MOST_ROWS
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.messages import FIGURES as TITLED
from knnlm_paper.report.messages import message
from knnlm_paper.report.sections import SECTIONS, all_sections
from knnlm_paper.report.write import CSV, FIGURES, MARKDOWN, PAGE, render
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.conftest import Smoke

LAPTOP = Path(__file__).parents[2] / "docs" / "results" / "laptop"


@pytest.fixture(scope="module")
def laptop() -> dict[str, str]:
    results = Results.open(LAPTOP)
    return render(results, all_findings(results))


def rendered(results: Results) -> dict[str, str]:
    return render(results, all_findings(results))


def tables(text: str) -> list[list[str]]:
    """The lines of every table of a Markdown text."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [block.strip().splitlines() for block in blocks]


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal but for the last digits of their floating-point numbers, which
    depend on the processor."""
    number = r"-?\d+\.\d+(?:e-?\d+)?"
    return re.split(number, one) == re.split(number, other) and all(
        math.isclose(float(a), float(b), rel_tol=1e-11, abs_tol=1e-15)
        for a, b in zip(re.findall(number, one), re.findall(number, other), strict=True)
    )


def test_texts_are_the_same_that_differ_in_the_last_of_many_digits_only() -> None:
    assert same_text("a 0.0004935594707727098, b", "a 0.0004935594707727101, b")
    assert not same_text("a 0.25, b", "a 0.26, b")
    assert not same_text("a 0.2500001 b", "a 0.2500002 b")
    assert not same_text("a 2 b 0.5", "a 3 b 0.5")
    assert not same_text("a 0.5, b", "a 0.5, c")


def test_the_committed_report_is_what_committed_records_say(laptop: dict[str, str]) -> None:
    for name, text in laptop.items():
        if name != PAGE:  # half a megabyte that anybody can make
            committed = (LAPTOP / name).read_text()
            assert same_text(committed, text), f"run 'knnlm reproduce --report': {name}"
    drawn = {name for name in laptop if name.startswith(FIGURES)}
    assert {f"{FIGURES}/{file.name}" for file in (LAPTOP / FIGURES).iterdir()} == drawn


def test_a_report_needs_no_model_library() -> None:
    code = f"""
import sys
from pathlib import Path
from knnlm_paper.claims import all_findings
from knnlm_paper.report.write import render
from knnlm_paper.results import Results
results = Results.open(Path({str(LAPTOP)!r}))
files = render(results, all_findings(results))
heavy = ("torch", "faiss", "transformers", "datasets", "scipy")
print(len(files) > 40, [name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


def test_tables_are_short_and_whole(laptop: dict[str, str]) -> None:
    every = tables(laptop[MARKDOWN])
    assert len(every) > 20
    for lines in every:
        assert len(lines) - 2 <= MOST_ROWS, lines[0]
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(cells) == 1, lines[0]


def test_every_table_and_figure_of_the_paper_has_its_section(laptop: dict[str, str]) -> None:
    titles = re.findall(r"^## (.*)$", laptop[MARKDOWN], flags=re.MULTILINE)
    assert [section.title for section in SECTIONS if section.title not in titles] == []
    names = {experiment.name for experiment in all_experiments(SMOKE_SCALE)}
    for section in SECTIONS:
        assert set(section.experiments) <= names, section.title


def test_every_topic_is_in_a_table(laptop: dict[str, str]) -> None:
    findings = all_findings(Results.open(LAPTOP))
    missing = {
        f.claim.topic for f in findings.values() if f"({f.claim.topic})" not in laptop[MARKDOWN]
    }
    assert missing == set()


def test_figures_are_well_formed_linked_and_titled(laptop: dict[str, str]) -> None:
    drawn = {name: text for name, text in laptop.items() if name.startswith(FIGURES)}
    assert len(drawn) >= 8
    for name, svg in drawn.items():
        assert name in laptop[MARKDOWN]
        root = ET.fromstring(svg)
        assert root.get("aria-label")
        assert "prefers-color-scheme: dark" in svg


def test_a_csv_has_every_condition_of_its_experiment(laptop: dict[str, str]) -> None:
    results = Results.open(LAPTOP)
    for experiment in all_experiments(results.scale):
        rows = list(csv.DictReader(io.StringIO(laptop[f"{CSV}/{experiment.name}.csv"])))
        measured = {each.name for each in experiment.conditions if each in results}
        assert {row["condition"] for row in rows} == measured
    exact = KNN(exactly(paper_retrieval(results.scale)))
    rows = list(csv.DictReader(io.StringIO(laptop[f"{CSV}/baselines.csv"])))
    (row,) = [row for row in rows if row["condition"] == exact.name]
    assert float(row["own_tau.ppl"]) == results.ppl(exact, "own_tau")
    ratio = results.ppl(exact, "own_tau") / results.ppl(exact, "base")
    assert float(row["own_tau.change"]) == pytest.approx(ratio - 1)
    pieces = results.tokens(exact) / results.words(exact)
    assert float(row["own_tau.change_per_word"]) == pytest.approx(ratio**pieces - 1)


def test_findings_are_in_a_csv_by_their_ids(laptop: dict[str, str]) -> None:
    findings = all_findings(Results.open(LAPTOP))
    rows = list(csv.DictReader(io.StringIO(laptop[f"{CSV}/findings.csv"])))
    assert [row["id"] for row in rows] == list(findings)
    for row in rows:
        finding = findings[row["id"]]
        assert row["verdict"] == finding.verdict
        assert float(row["effect"]) == finding.effect


def test_a_number_that_changes_changes_the_report(smoke: Smoke) -> None:
    before = rendered(smoke.results)
    assert before == {name: (smoke.folder / name).read_text() for name in before}
    condition = KNN(exactly(paper_retrieval(smoke.scale)))
    record = smoke.results.record(condition)
    point = replace(record.measurement.own_tau, ppl=2 * record.measurement.own_tau.ppl)
    doubled = replace(record, measurement=replace(record.measurement, own_tau=point))
    after = rendered(Results(smoke.scale, {**smoke.results.records, condition.name: doubled}))
    for name in (MARKDOWN, PAGE, f"{CSV}/baselines.csv"):
        assert after[name] != before[name]


def test_the_page_stands_alone(smoke: Smoke) -> None:
    page = rendered(smoke.results)[PAGE]
    assert not re.search(r"<script|<link|src=|@import|https?://(?!www\.w3\.org)", page)


def test_a_scale_without_a_message_gets_titles_of_what_is_drawn(smoke: Smoke) -> None:
    page, laptop = rendered(smoke.results)[PAGE], Evidence(Results.open(LAPTOP))
    for figure in TITLED:
        assert (said := message(laptop, figure)) is not None, figure
        assert said not in page
        assert message(Evidence(smoke.results), figure) is None
    assert "An index instead of exact search, in every LM" in page
    assert "This scale is a toy" in rendered(smoke.results)[MARKDOWN]


@pytest.mark.parametrize("name", [e.name for e in all_experiments(SMOKE_SCALE)])
def test_the_conditions_of_any_experiment_make_a_report(smoke: Smoke, name: str) -> None:
    (experiment,) = chosen(smoke.scale, [name])
    some = smoke.results.only(experiment.conditions)
    files = rendered(some)
    assert files[MARKDOWN].startswith("# Why do nearest-neighbor")
    assert f"{CSV}/{name}.csv" in files
    assert all(section.blocks for section in all_sections(Evidence(some)))
