"""`knnlm reproduce`: every condition measured once, with provenance; nothing searched twice;
interruptions do not show."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knnlm.cli.main import run
from knnlm.datastore.entries import open_entries
from knnlm.experiments.records import Record, ResultsFolder, load_records
from knnlm_paper.conditions import KINDS, KNN
from knnlm_paper.experiments import all_experiments, chosen, unique_conditions
from knnlm_paper.plan import needed_searches
from knnlm_paper.scales import SCALES, SMOKE_SCALE
from tests.paper.conftest import Smoke

pytestmark = pytest.mark.pipeline


def test_every_condition_of_every_experiment_has_a_record(smoke: Smoke) -> None:
    conditions = unique_conditions(all_experiments(smoke.scale))
    assert {condition.name for condition in conditions} == set(smoke.results.records)
    assert set(conditions) == set(smoke.results)
    for record in smoke.results.records.values():
        made = record.provenance
        assert made.command.startswith("knnlm reproduce ")
        assert made.command.endswith("--scale smoke")
        assert made.seed is not None
        assert made.machine
        assert made.instructions
        assert made.threads
        assert made.seconds >= 0
        assert {"python", "knnlm", "torch"} <= made.versions.keys()
        assert record.scale == "smoke"


def test_no_search_is_run_twice(smoke: Smoke) -> None:
    """Each datastore is searched once in each way for the validation and once for the test text,
    whatever conditions use it."""
    assert all(times == 2 for _, times in smoke.searches), smoke.searches
    conditions = unique_conditions(all_experiments(smoke.scale))
    assert len(smoke.searches) == len(needed_searches(conditions, smoke.scale))


def test_a_finished_run_measures_nothing_and_reports_the_same(
    smoke: Smoke, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p.name: p.read_bytes() for p in smoke.folder.glob("*.*")}
    assert (
        run(["reproduce", "baselines", "--scale", "smoke", "--out", str(smoke.folder), "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["measured"] == 0
    assert found["rows"] == 16
    assert {p.name: p.read_bytes() for p in smoke.folder.glob("*.*")} == before


def test_killed_runs_end_with_the_same_results(smoke: Smoke, tmp_path: Path) -> None:
    """From nothing; each run gets to a few more commits."""
    assert _killed(tmp_path / "killed", "audit-precision", 5, 25) >= 3
    found = load_records(tmp_path / "killed", KINDS)
    assert len(found) == 4
    for name, record in found.items():
        assert _results(record) == _results(smoke.results.records[name])


def test_killed_runs_of_everything_end_with_the_same_results(smoke: Smoke, tmp_path: Path) -> None:
    """Every kind of condition, and the LM and datastore of one of the LMs."""
    folder = tmp_path / "killed"
    shutil.copytree(smoke.folder, folder)
    for kept in ("lm", "states"):
        shutil.rmtree(folder / "work" / kept / "width-16")
    for record_file in (folder / "records").iterdir():
        record_file.unlink()
    assert _killed(folder, "all", 20, 60) >= 3
    found = load_records(folder, KINDS)
    assert {record.kind for record in found.values()} == set(KINDS)
    assert found.keys() == smoke.results.records.keys()
    for name, record in found.items():
        assert _results(record) == _results(smoke.results.records[name])


def _killed(folder: Path, name: str, fewest: int, most: int) -> int:
    """Reproduce an experiment, killed at random commits until a run comes to its end; how often it
    was killed."""
    program = [sys.executable, "-m", "tests.paper.killable", str(folder), name]
    rng = random.Random(0)
    kills = 0
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        while True:
            print(rng.randint(fewest, most), file=parent.stdin, flush=True)
            status = os.waitstatus_to_exitcode(int(parent.stdout.readline()))
            if status != -signal.SIGKILL:
                break
            kills += 1
        parent.stdin.close()
    assert status == 0
    return kills


def test_the_clock_of_an_interrupted_condition_resumes(
    smoke: Smoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (experiment,) = chosen(smoke.scale, ["recompute"])
    folder, name = tmp_path / "again", experiment.conditions[-1].name
    shutil.copytree(smoke.folder, folder)
    (folder / "records" / f"{name}.json").unlink()

    def interrupted(*_: Any) -> None:
        time.sleep(0.5)
        raise KeyboardInterrupt

    again = ["reproduce", "recompute", "--scale", "smoke", "--out", str(folder)]
    with monkeypatch.context() as patched:
        patched.setattr(KNN, "measure", interrupted)
        assert run(again) == 1
    with monkeypatch.context() as patched:
        patched.setattr(KNN, "measure", lambda *_: smoke.results.records[name].measurement)
        assert run(again) == 0
    assert load_records(folder, KINDS)[name].provenance.seconds >= 0.5
    assert not list((folder / "work" / "clocks").iterdir())


def test_records_of_an_lm_that_was_trained_otherwise_do_not_join(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor an ensemble that it is part of."""
    folder, lm = tmp_path / "other-cpu", smoke.scale.seeds[1]
    shutil.copytree(smoke.folder, folder)
    for experiment in chosen(smoke.scale, ["ensembles", "stolen"]):
        for condition in experiment.conditions:
            (folder / "records" / f"{condition.name}.json").unlink()
    results = ResultsFolder(folder)
    for condition in unique_conditions(all_experiments(smoke.scale)):
        record = results.read(condition)
        if condition.lm.name == lm and record is not None:
            elsewhere = replace(record.provenance, model="of another CPU")
            results.write(replace(record, provenance=elsewhere))
    before = len(load_records(folder, KINDS))
    assert run(["reproduce", "stolen", "--scale", "smoke", "--out", str(folder)]) == 1
    assert f"holds records of another LM called {lm}" in capsys.readouterr().err
    assert run(["reproduce", "ensembles", "--scale", "smoke", "--out", str(folder)]) == 1
    assert f"holds records of another LM called {lm}" in capsys.readouterr().err
    assert len(load_records(folder, KINDS)) == before + 1  # that of the main LM, which is the same


def _results(record: Record[Any]) -> Any:
    """All but how it was made."""
    return {name: value for name, value in vars(record).items() if name != "provenance"}


def test_results_of_another_scale_are_left_alone(
    smoke: Smoke, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "all", "--scale", "demo", "--out", str(smoke.folder)]) == 1
    assert "holds results of scale smoke, not demo: choose another --out" in capsys.readouterr().err
    assert load_records(smoke.folder, KINDS) == smoke.results.records


def test_queries_are_the_same_random_tokens_for_every_lm(smoke: Smoke) -> None:
    work = smoke.folder / "work" / "states"
    count = smoke.scale.queries
    assert count is not None
    stores = [open_entries(work / lm / f"test-{count}") for lm in ("main", "seed-1", "width-16")]
    whole = open_entries(work / "main" / "test")
    assert {s.count for s in stores} == {count}
    assert whole.count > count
    for s in stores[1:]:
        assert (s.targets == stores[0].targets).all()
    assert stores[0].words == round(whole.words * count / whole.count)


def test_any_model_can_join_appendix_a(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = replace(SMOKE_SCALE, widths=("width-16",), queries=100)
    monkeypatch.setitem(SCALES, "smoke", few)
    out, model = tmp_path / "out", tmp_path / "mine"
    model.symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    assert (
        run(
            [
                "reproduce",
                "models",
                "--scale",
                "smoke",
                "--out",
                str(out),
                "--model",
                "mine",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 4
    assert {"knn-helps-mine"} <= {
        f["id"] for f in found["findings"] if f["verdict"] != "not measured"
    }
    record = load_records(out, KINDS)["mine_att_l2_exact_k-64_factory-IVF32-PQ8x4np"]
    assert record.measurement.base.ppl > record.measurement.own_tau.ppl
    assert record.provenance.seed is None
    assert record.provenance.command.endswith("--model mine")
    assert (
        run(["reproduce", "--report", "--scale", "smoke", "--out", str(out), "--json"]) == 0
    )  # without naming it
    assert "knn-helps-mine" in capsys.readouterr().out
    assert "Neighbors lower the perplexity of mine" in (out / "RESULTS.md").read_text()


def test_results_of_another_lm_of_that_name_are_left_alone(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *rest = SMOKE_SCALE.lms
    other = replace(first, preset=replace(first.preset, lr=1e-3))
    monkeypatch.setitem(SCALES, "smoke", replace(SMOKE_SCALE, lms=(other, *rest)))
    assert run(["reproduce", "words", "--scale", "smoke", "--out", str(smoke.folder)]) == 1
    assert (
        "holds results of another LM called main: choose another --out" in capsys.readouterr().err
    )


def test_a_report_can_be_written_again_from_records_alone(smoke: Smoke, tmp_path: Path) -> None:
    for name in ("scale.json", "records"):
        copy = shutil.copytree if (smoke.folder / name).is_dir() else shutil.copy
        copy(smoke.folder / name, tmp_path / name)
    assert run(["reproduce", "--report", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    for file in ("RESULTS.md", "results.html"):
        assert (tmp_path / file).read_bytes() == (smoke.folder / file).read_bytes()
