"""The demo, whole, at its smallest size; interrupted and rerun; and what its page says."""

import json
from pathlib import Path

import pytest

import knnlm.experiments.demo as module
from knnlm.cli.main import run

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was interrupted after its third row and run again."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    real, calls = module._measure, []

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_measure", interrupted)
        assert run(["demo", "--scale", "smoke", "--out", str(out)]) == 1
    assert len(list((out / "rows").iterdir())) == 3
    assert not (out / "report.html").exists()
    return out


def test_it_goes_on_after_an_interruption_and_reports(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {p.name: p.stat().st_mtime_ns for p in (folder / "rows").iterdir()}
    assert run(["demo", "--scale", "smoke", "--out", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {
        p.name: p.stat().st_mtime_ns for p in (folder / "rows").iterdir() if p.name in kept
    } == kept
    settings = {(row["key"], row["metric"], row["mask"] == "exact") for row in found["rows"]}
    assert settings == {
        (k, m, e) for k in ("att", "ffn") for m in ("l2", "ip") for e in (True, False)
    }
    best = found["best"]
    assert best in found["rows"]
    assert best["valid_ppl"] == min(row["valid_ppl"] for row in found["rows"])
    assert best["interp_ppl"] <= 0.93 * found["base_ppl"]
    assert best["ratio_ci95"][1] < 1
    page = Path(found["report"]).read_text()
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
