"""The demo, whole, at its smallest size; interrupted and rerun; and what its page says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from knnlm.cli.main import run
from knnlm.components.records import KNN_NAME
from knnlm.datastore.entries import open_entries
from knnlm.evaluation.settings import choose_settings, load_settings, save_settings
from knnlm.experiments.knn_condition import KNNCondition, KNNMeasurement
from knnlm.experiments.workspace import Workspace

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was interrupted after its third condition."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    real, calls = KNNCondition.measure, []

    def interrupted(condition: KNNCondition, workspace: Workspace) -> KNNMeasurement:
        calls.append(condition.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(condition, workspace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KNNCondition, "measure", interrupted)
        assert run(["demo", "--scale", "smoke", "--out", str(out)]) == 1
    assert len(list((out / "records").iterdir())) == 3
    assert not (out / "report.html").exists()
    return out


def test_it_resumes_after_an_interruption_and_reports(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {p.name: p.stat().st_mtime_ns for p in (folder / "records").iterdir()}
    assert run(["demo", "--scale", "smoke", "--out", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {
        p.name: p.stat().st_mtime_ns for p in (folder / "records").iterdir() if p.name in kept
    } == kept
    settings = {(row["key"], row["metric"], row["mask"] == "exact") for row in shown["rows"]}
    assert settings == {
        (k, m, e) for k in ("att", "ffn") for m in ("l2", "ip") for e in (True, False)
    }
    best = shown["best"]
    assert best in shown["rows"]
    assert best["valid_ppl"] == min(row["valid_ppl"] for row in shown["rows"])
    assert best["interp_ppl"] <= 0.93 * shown["base_ppl"]
    assert best["ratio_ci95"][1] < 1
    page = Path(shown["report"]).read_text()
    assert "Retrieval lowered perplexity on unseen text" in page
    assert page.count("<svg") == 2


def test_run_again_it_shows_the_same_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--scale", "smoke", "--out", str(folder)]) == 0
    before = (folder / "report.html").read_bytes()
    assert run(["demo", "--scale", "smoke", "--out", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == before
    output = capsys.readouterr().out
    assert "report.html" in output
    assert "What to try next" in output


def test_the_next_commands_find_settings_and_clusters(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", str(folder / "store"), "--json"]) == 0
    capsys.readouterr()
    tuned = load_settings(open_entries(folder / "store"))
    assert sum(settings.retrieval is not None for settings in tuned) == 8
    test = ["--embedded", "--json"]
    assert run(["eval", str(folder / "store"), *test]) == 0
    assert run(["eval", str(folder / "store"), *test, "--component", "clusters"]) == 0
    with_neighbors, with_clusters = map(json.loads, capsys.readouterr().out.splitlines())
    assert with_neighbors["interp_ppl"] < with_neighbors["base_ppl"]
    assert with_clusters["interp_ppl"] < with_clusters["base_ppl"]


def test_settings_that_the_user_tuned_since_are_kept(folder: Path) -> None:
    store = open_entries(folder / "store")
    tuned = choose_settings(store, KNN_NAME)
    assert tuned is not None
    own = replace(tuned, text="of the user", lam=0.125)
    save_settings(store, own)
    assert run(["demo", "--scale", "smoke", "--out", str(folder)]) == 0
    assert choose_settings(store, KNN_NAME) == own


def test_a_demo_of_another_scale_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.name != ".lock"}
    assert run(["demo", "--out", str(folder)]) == 1
    assert "holds results of scale smoke, not demo" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.name != ".lock"} == before


def test_an_unknown_scale_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--scale", "smok", "--out", str(tmp_path / "out")]) == 2
    assert "unknown scale 'smok': did you mean 'smoke'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
