"""`knnlm reproduce`: every row measured once, with provenance; nothing searched twice;
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
from knnlm.experiments.records import load_records
from knnlm.files import write_json
from knnlm_paper.conditions import most_neighbours, unique_rows
from knnlm_paper.experiments import chosen, recipes
from knnlm_paper.measure import Bench
from knnlm_paper.scales import SCALES, SMOKE_SCALE
from tests.paper.conftest import Smoke

pytestmark = pytest.mark.pipeline


def test_every_row_of_every_recipe_has_a_record(smoke: Smoke) -> None:
    rows = unique_rows(recipes(smoke.scale))
    assert {row.name for row in rows} == set(smoke.records)
    for record in smoke.records.values():
        made = record["provenance"]
        assert made["command"].startswith("knnlm reproduce ")
        assert made["command"].endswith("--scale smoke")
        assert {
            "commit",
            "seed",
            "machine",
            "instructions",
            "threads",
            "seconds",
            "versions",
        } <= made.keys()
        assert record["scale"] == "smoke"


def test_no_search_is_run_twice(smoke: Smoke) -> None:
    """Each store and mask is searched once for the validation and once for the test text, whatever
    rows use it."""
    assert all(times == 2 for _, times in smoke.searches), smoke.searches
    assert len(smoke.searches) == len(
        most_neighbours(unique_rows(recipes(smoke.scale)), smoke.scale)
    )


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
    """Killed at random points until one comes to its end; that gives what an undisturbed run
    gives."""
    program = [
        sys.executable,
        "-m",
        "tests.paper.killable",
        str(tmp_path / "killed"),
        "audit-precision",
    ]
    rng = random.Random(0)
    kills = 0
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        while True:
            print(rng.randint(5, 25), file=parent.stdin, flush=True)
            status = os.waitstatus_to_exitcode(int(parent.stdout.readline()))
            if status != -signal.SIGKILL:
                break
            kills += 1
        parent.stdin.close()
    assert status == 0
    assert kills >= 3
    found = load_records(tmp_path / "killed")
    assert len(found) == 4
    for name, record in found.items():
        assert _results(record) == _results(smoke.records[name])


def test_the_clock_of_an_interrupted_row_goes_on(
    smoke: Smoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recipe,) = chosen(smoke.scale, ["recompute"])
    folder, name = tmp_path / "again", recipe.rows[-1].name
    shutil.copytree(smoke.folder, folder)
    (folder / "rows" / f"{name}.json").unlink()

    def interrupted(*_: Any) -> None:
        time.sleep(0.5)
        raise KeyboardInterrupt

    again = ["reproduce", "recompute", "--scale", "smoke", "--out", str(folder)]
    with monkeypatch.context() as patched:
        patched.setattr(Bench, "measure", interrupted)
        assert run(again) == 1
    with monkeypatch.context() as patched:
        patched.setattr(Bench, "measure", lambda *_: smoke.records[name]["results"])
        assert run(again) == 0
    assert load_records(folder)[name]["provenance"]["seconds"] >= 0.5
    assert not list((folder / "work" / "clocks").iterdir())


def test_rows_of_an_lm_that_was_trained_otherwise_do_not_join(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor an ensemble that it is part of."""
    folder, lm = tmp_path / "other-cpu", smoke.scale.seeds[1]
    shutil.copytree(smoke.folder, folder)
    for recipe in chosen(smoke.scale, ["ensembles", "stolen"]):
        for row in recipe.rows:
            (folder / "rows" / f"{row.name}.json").unlink()
    for row in unique_rows(recipes(smoke.scale)):
        file = folder / "rows" / f"{row.name}.json"
        if row.lm[0] == lm and file.is_file():
            record = json.loads(file.read_text())
            record["provenance"]["model"] = "of another CPU"
            write_json(file, {k: v for k, v in record.items() if k != "checksum"})
    before = len(load_records(folder))
    assert run(["reproduce", "stolen", "--scale", "smoke", "--out", str(folder)]) == 1
    assert f"holds records of another LM called {lm}" in capsys.readouterr().err
    assert run(["reproduce", "ensembles", "--scale", "smoke", "--out", str(folder)]) == 1
    assert f"holds records of another LM called {lm}" in capsys.readouterr().err
    assert len(load_records(folder)) == before + 1  # that of the main LM, which is the same


def _results(record: Any) -> Any:
    """All but how it was made."""
    return {name: value for name, value in record.items() if name != "provenance"}


def test_results_of_another_scale_are_left_alone(
    smoke: Smoke, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "all", "--scale", "demo", "--out", str(smoke.folder)]) == 1
    assert "holds results of scale smoke, not demo: choose another --out" in capsys.readouterr().err
    assert load_records(smoke.folder) == smoke.records


def test_queries_are_the_same_random_tokens_for_every_lm(smoke: Smoke) -> None:
    work = smoke.folder / "work" / "states"
    count = smoke.scale.eval_rows
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
    few = replace(SMOKE_SCALE, widths=("width-16",), eval_rows=100)
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
    assert {"kNN helps mine"} <= {
        f["name"] for f in found["findings"] if f["verdict"] != "not measured"
    }
    record = load_records(out)["mine_att_l2_exact_real_k-64_factory-IVF32-PQ8x4np"]
    assert record["results"]["base"]["ppl"] > record["results"]["tuned"]["ppl"]
    assert record["provenance"]["seed"] is None
    assert record["provenance"]["command"].endswith("--model mine")
    assert (
        run(["reproduce", "--report", "--scale", "smoke", "--out", str(out), "--json"]) == 0
    )  # without naming it
    assert "kNN helps mine" in capsys.readouterr().out
    assert "mine: real mask, real score" in (out / "RESULTS.md").read_text()


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


def test_a_report_can_be_written_anew_from_rows_alone(smoke: Smoke, tmp_path: Path) -> None:
    for name in ("scale.json", "rows"):
        copy = shutil.copytree if (smoke.folder / name).is_dir() else shutil.copy
        copy(smoke.folder / name, tmp_path / name)
    assert run(["reproduce", "--report", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    for file in ("RESULTS.md", "results.html"):
        assert (tmp_path / file).read_bytes() == (smoke.folder / file).read_bytes()
