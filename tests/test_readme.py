"""What the README shows really runs, from an empty folder."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from knnlm.cli.main import run
from knnlm.models.load import LanguageModel, load_model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def block(marker: str) -> str:
    found = re.search(rf"<!-- {marker}: run by tests -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert found, marker
    return found[1]


@pytest.fixture
def short_embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and the beginning of each embedded document only: the commands are tested,
    not the waiting."""
    import knnlm.text.python_docs as embedded

    real = embedded._documents()
    short = tuple(d._replace(text=d.text[:150]) for d in real)
    monkeypatch.setattr(embedded, "_documents", lambda: short)
    monkeypatch.chdir(tmp_path)


@pytest.mark.pipeline
@pytest.mark.usefixtures("short_embedded")
def test_the_commands_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line.partition("#")[0].strip() for line in block("commands").splitlines()]
    assert len(commands) >= 7
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "knnlm"
        assert run(words[1:]) == 0, capsys.readouterr().err


@pytest.mark.pipeline
def test_the_example_runs_as_it_stands(
    tmp_path: Path,
    tiny_model: Path,
    texts: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a tiny model instead of the one on the hub, in a folder that has the texts it names."""
    (tmp_path / "docs").mkdir()
    shutil.copy(texts["train"], tmp_path / "docs")
    for split in ("valid", "test"):
        shutil.copy(texts[split], tmp_path / f"{split}.txt")

    def load_tiny(name: str, **options: object) -> LanguageModel:
        assert name == "HuggingFaceTB/SmolLM2-135M"
        return load_model(tiny_model)

    monkeypatch.setattr("knnlm.api.datastore.load_model", load_tiny)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("example"), "README.md", "exec"), {})
    output = capsys.readouterr().out
    assert re.search(r"calibrated LM +[\d,.]+  [−+]?[\d.]+", output)
    assert re.search(r"P [\d.]+ +LM [\d.]+ +kNN [\d.]+", output)
    assert "train.txt" in output


@pytest.mark.pipeline
def test_the_answer_is_what_the_committed_records_say() -> None:
    from docs.readme import with_answer

    assert with_answer(README) == README, "run 'make readme'"
    with pytest.raises(ValueError, match="0 places for the answer"):
        with_answer("# knnlm")


def test_the_tree_is_what_the_declared_layers_and_the_docstrings_say() -> None:
    from docs.tree import rooms, with_tree

    assert with_tree(README) == README, "run 'make readme'"
    listed = re.findall(r"^\| [^|]* \| `(\w+)(?:/|\.py)` \|", README, re.MULTILINE)
    assert listed == rooms()
    with pytest.raises(ValueError, match="0 places for the tree"):
        with_tree("# knnlm")


def test_the_prediction_looked_at_is_one_of_the_guide() -> None:
    shown = re.search(r"```text\n(⟦.*?)```", README, re.DOTALL)
    assert shown
    assert shown[1] in (ROOT / "docs" / "adapt.md").read_text()
    lm, knn = (float(x) for x in re.findall(r"(?:LM|kNN) (0\.\d+)", shown[1])[:2])
    said = re.search(r"λ = (0\.\d+): (0\.\d+) · (0\.\d+) \+ (0\.\d+) · (0\.\d+) = (0\.\d+)", README)
    assert said
    lam, rest, a, again, b, total = (float(x) for x in said.groups())
    assert rest == pytest.approx(1 - lam)
    assert (a, again, b) == (lm, lam, knn)
    assert total == pytest.approx((1 - lam) * lm + lam * knn, abs=1e-3)
    assert f"P {total}" in shown[1]


def test_the_table_is_what_the_committed_run_says() -> None:
    import json

    from knnlm.report.markdown import table
    from knnlm.report.records import demo_table

    record = json.loads((ROOT / "docs" / "results" / "demo.json").read_text())
    assert table(demo_table(record)) in README
