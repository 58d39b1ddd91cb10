"""What the README shows really runs, from an empty folder, and what it says is so."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs.write import WRITTEN, Numbers, disk, written

from knnlm.cli.main import run
from knnlm.datastore.table import ColumnType
from knnlm.models.load import LanguageModel, load_model
from knnlm_paper.results import Results
from tests.conftest import prose

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MODEL = "HuggingFaceTB/SmolLM2-135M"


def block(marker: str) -> str:
    match = re.search(rf"<!-- {marker}: run by tests -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert match, marker
    return match[1]


@pytest.fixture
def documents(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `docs` of many files, and a tiny model instead of the one on the hub."""
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / "docs" / f"{number}.txt").write_text(prose(number, 60))

    def load_tiny(name: str, **options: object) -> LanguageModel:
        assert name in (MODEL, str(tiny_model))
        return load_model(tiny_model)

    monkeypatch.setattr("knnlm.api.datastore.load_model", load_tiny)
    monkeypatch.setattr("knnlm.api.choices.load_model", load_tiny)
    monkeypatch.chdir(tmp_path)


@pytest.mark.pipeline
@pytest.mark.usefixtures("documents")
def test_the_commands_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [shlex.split(line) for line in block("commands").splitlines()]
    assert len(commands) == 4
    for words in commands:
        assert words[0] == "knnlm"
        assert run(words[1:]) == 0, capsys.readouterr().err


@pytest.mark.pipeline
@pytest.mark.usefixtures("documents")
def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("example"), "README.md", "exec"), {})
    output = capsys.readouterr().out
    assert re.search(r"calibrated LM +[\d,.]+  [−+]?[\d.]+", output)
    assert re.search(r"P [\d.]+ +LM [\d.]+ +kNN [\d.]+", output)
    assert re.search(r"\(\d+\.txt\)", output)


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return Numbers(Results.open(ROOT / "docs" / "results" / "laptop"))


@pytest.mark.parametrize("name", WRITTEN)
def test_written_documents_are_what_templates_and_records_say(name: str, numbers: Numbers) -> None:
    assert written(name, numbers) == WRITTEN[name].read_text(), "run 'make docs'"


def test_a_sentence_does_not_outlive_its_finding(numbers: Numbers) -> None:
    with pytest.raises(ValueError, match="relies on 'att-beats-ffn@own-tau': holds, but it is"):
        numbers.holds("att-beats-ffn@own-tau")
    with pytest.raises(ValueError, match="relies on no LM being ahead"):
        numbers.none_ahead("over_calibrated")
    with pytest.raises(ValueError, match="alone being ahead"):
        numbers.only_ahead("over_calibrated", "main", 100)
    with pytest.raises(Exception, match="did you mean 'att-beats-ffn@own-tau'"):
        numbers.per_token("att-beat-ffn@own-tau")


def prose_of(text: str) -> str:
    """A document without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("name", "most"), [("README.md", 900), ("why.md", 1200)])
def test_documents_are_short(name: str, most: int) -> None:
    assert len(prose_of(WRITTEN[name].read_text()).split()) <= most


@pytest.mark.parametrize("name", WRITTEN)
def test_no_sentence_has_more_than_three_numbers(name: str) -> None:
    text = prose_of(WRITTEN[name].read_text())
    text = re.sub(r"\]\([^)]*\)|^\|.*$|<[^>]*>", "", text, flags=re.MULTILINE)
    for sentence in re.split(r"(?<=[.:;])\s", text):
        assert len(re.findall(r"(?<![\w-])[−+]?\d[\d,.]*", sentence)) <= 3, sentence


def test_the_picture_shows_what_the_equation_gives() -> None:
    shown: dict[str, Any] = json.loads((ROOT / "docs/images/explained.json").read_text())
    import math

    token, lam = shown["token"], shown["lambda"]
    lm, knn, mixed = (math.exp(token[f"{name}_logprob"]) for name in ("lm", "component", "mixed"))
    assert mixed == pytest.approx((1 - lam) * lm + lam * knn, rel=1e-3)
    assert token["neighbors"][0]["is_target"]


def test_disk_is_what_the_columns_of_an_entry_take() -> None:
    columns = [ColumnType("<f2", 576), ColumnType("<f2", 576), *[ColumnType("<i4", 0)] * 3]
    import numpy as np

    size = sum(np.dtype(c.dtype).itemsize * max(1, c.width) for c in columns)
    assert disk(576) == f"{size / 1000:.1f} GB"


def test_links_lead_somewhere() -> None:
    for file in WRITTEN.values():
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#]+)", file.read_text()):
            assert link.startswith("https://") or (file.parent / link).exists(), link


def test_reading_results_and_writing_documents_need_no_model_library() -> None:
    code = (
        "import sys; from docs.write import written; written('why.md'); "
        "print([m for m in ('torch', 'transformers', 'faiss', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
