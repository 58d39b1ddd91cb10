"""The four commands on a folder as people have them: mixed formats and junk."""

import json
from pathlib import Path

import pytest

from knnlm.cli.main import run
from tests.conftest import prose
from tests.text.test_formats import pdf

pytestmark = pytest.mark.pipeline


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with documents in `docs`."""
    docs = tmp_path / "docs"
    (docs / "guide").mkdir(parents=True)
    for number in range(30):
        (docs / "guide" / f"{number}.md").write_text(prose(number, 12))
        (docs / f"{number}.PY").write_text(prose(100 + number, 9))
    (docs / "page.html").write_text(f"<html><body><p>{prose(200, 20)}</p></body></html>")
    (docs / "paper.pdf").write_bytes(pdf("the cat sat on a mat"))
    (docs / "scan.pdf").write_bytes(pdf(""))
    (docs / "photo.jpg").write_bytes(b"\xff\xd8\0")
    (docs / "empty.txt").touch()
    monkeypatch.chdir(tmp_path)
    return docs


def run_verb(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    return output.out, output.err


def test_four_commands_and_no_other_text(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ("build", tiny_model, "--text", "docs", "--split", "60,20,20", "--out", "store")
    out, error = run_verb(capsys, *build, "--meta", "author=me", "--verbose")
    assert "docs: 63 files, and 1 empty, 1 .jpg skipped" in error
    assert "skipped: docs/photo.jpg (.jpg)" in error
    assert "documents, about" in error
    assert "MB of disk" in error
    assert "next: knnlm tune store, or knnlm index store first" in out
    out, error = run_verb(capsys, "tune", "store", "--k", "16")
    assert "next: knnlm eval store\n" in out
    out, error = run_verb(capsys, "eval", "store", "--json")
    assert json.loads(out)["tokens"] > 100
    out, error = run_verb(
        capsys, "generate", "store", "the cat", "--max-new-tokens", "2", "--explain"
    )
    assert "(guide/" in out or ".PY)" in out or "(page.html)" in out


def test_what_cannot_be_divided(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(code: int, *words: object) -> str:
        assert run([str(word) for word in words]) == code
        return capsys.readouterr().err

    build = ("build", tiny_model, "--out", "store")
    assert "as in 90,5,5" in complaint(2, *build, "--text", "docs", "--split", "90,5")
    assert "is not a list of numbers" in complaint(2, *build, "--text", "docs", "--split", "most")
    assert "name them with --text" in complaint(2, *build, "--embedded", "--split", "90,5,5")
    assert "write it like author=me" in complaint(2, *build, "--text", "docs", "--meta", "me")
    run_verb(capsys, *build, "--text", "docs", "--split", "100,0,0")
    assert "falls into 'valid' (100,0,0 percent): give it a larger share" in complaint(
        1, "tune", "store"
    )
    run_verb(capsys, "build", tiny_model, "--text", mixed / "page.html", "--out", "plain")
    assert "built from a text without splits: give another text with --text" in complaint(
        2, "tune", "plain"
    )
