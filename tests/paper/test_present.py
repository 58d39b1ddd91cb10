"""The report: made from records alone, the same bytes each time, and as committed."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from knnlm.experiments.records import CLAIM
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments import all_experiments, chosen
from knnlm_paper.report import figures, reasons, regimes, ruled_out, shares
from knnlm_paper.report.making import times
from knnlm_paper.report.report import FIGURES, MARKDOWN, PAGE, content, render
from knnlm_paper.results import Results
from knnlm_paper.retrieval import paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.conftest import Smoke

RESULTS = sorted(Path(__file__).parents[2].glob(f"docs/results/*/{CLAIM}"))


@pytest.mark.pipeline
@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.parent.name)
def test_committed_reports_are_what_committed_records_say(file: Path) -> None:
    folder = file.parent
    files = render(Results.open(folder))
    for name, text in files.items():
        again = f"knnlm reproduce --report --scale {folder.name} --out docs/results/{folder.name}"
        assert (folder / name).read_text() == text, f"run '{again}'"
    assert {p.name for p in (folder / FIGURES).iterdir()} == {
        Path(n).name for n in files if n.startswith(FIGURES)
    }


@pytest.mark.pipeline
def test_a_number_that_changes_changes_the_report(smoke: Smoke) -> None:
    before = render(smoke.results)
    assert before == {name: (smoke.folder / name).read_text() for name in before}
    condition = KNN(paper_retrieval(smoke.scale))
    record = smoke.results.record(condition)
    point = replace(record.measurement.own_tau, ppl=2 * record.measurement.own_tau.ppl)
    doubled = replace(record, measurement=replace(record.measurement, own_tau=point))
    records = {**smoke.results.records, condition.name: doubled}
    after = render(Results(smoke.scale, records))
    assert after[MARKDOWN] != before[MARKDOWN]
    assert after[PAGE] != before[PAGE]


def test_the_page_stands_alone(smoke: Smoke) -> None:
    page = (smoke.folder / PAGE).read_text()
    assert not re.search(r"<script|<link|src=|@import|https?://(?!www\.w3\.org)", page)
    assert page.count("<table>") == page.count("</table>") > 5
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)


def test_figures_are_well_formed_and_linked(smoke: Smoke) -> None:
    text = (smoke.folder / MARKDOWN).read_text()
    drawn = sorted((smoke.folder / FIGURES).glob("*.svg"))
    assert len(drawn) >= 10
    for file in drawn:
        ET.fromstring(file.read_text())
        assert f"({FIGURES}/{file.name})" in text


def test_no_template_is_left_in_a_sentence(smoke: Smoke) -> None:
    text = (smoke.folder / MARKDOWN).read_text()
    assert "The answer." in text
    assert not set("{}") & set(text)


def test_markdown_tables_have_as_many_cells_in_every_line(smoke: Smoke) -> None:
    width = 0
    for line in (smoke.folder / MARKDOWN).read_text().splitlines():
        if line.startswith("|"):
            cells = len(re.split(r"(?<!\\)\|", line))
            assert width in (0, cells)
            width = cells
        else:
            width = 0


@pytest.mark.parametrize("name", [experiment.name for experiment in all_experiments(SMOKE_SCALE)])
def test_the_conditions_of_any_experiment_make_a_report(
    smoke: Smoke, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (figures, regimes, shares, reasons, ruled_out):
        monkeypatch.setattr(
            module, "drawing", lambda *_: "<svg/>"
        )  # what is drawn is tested elsewhere
    (experiment,) = chosen(smoke.scale, [name])
    some = smoke.results.only(experiment.conditions)
    assert len(some) == len({condition.name for condition in experiment.conditions})
    assert content(some)[-1].title == "How it was made"


def test_every_condition_and_lm_is_timed_once(smoke: Smoke) -> None:
    *recipe_times, total = times(smoke.results).rows
    counted = sum(int(line[1].text) for line in recipe_times)
    assert counted == int(total[1].text) == len(smoke.results)
    assert int(total[3].text) == len(smoke.scale.lms)
    minutes = sum(r.provenance.seconds for r in smoke.results.records.values()) / 60
    assert float(total[2].text) == pytest.approx(minutes, abs=0.05)


def test_a_report_of_some_experiments_leaves_the_rest_out(smoke: Smoke) -> None:
    some = [c for c in smoke.results.of_kind(KNN) if c.name.startswith("main_att_l2")]
    assert len(some) > 10
    text = render(smoke.results.only(some))[MARKDOWN]
    assert "not measured" not in text
    assert "nan" not in text
