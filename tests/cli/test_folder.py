"""The four commands on a folder as people have them: mixed formats and junk."""

import json
import re
import sys
from pathlib import Path

import pytest

from knnlm import defaults
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
    assert error.count("docs: 63 files, and 1 empty, 1 .jpg skipped") == 1
    assert re.search(r"\d+ documents for the datastore, \d+ for validation and \d+ for test", error)
    assert "skipped: docs/photo.jpg (.jpg)" in error
    assert "documents, about" in error
    assert "MB of disk" in error
    assert "next: knnlm tune store\n" in out
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
    assert "name them with --text" in complaint(2, *build, "--embedded", "--split", "90,5,5")
    assert "write it like author=me" in complaint(2, *build, "--text", "docs", "--meta", "me")
    for wrong in ("90;5;5", "most"):
        assert "write them like 90,5,5" in complaint(2, *build, "--text", "docs", "--split", wrong)
    for wrong in ("", "nan,5,5"):
        line = complaint(2, *build, "--text", "docs", "--split", wrong)
        assert f"split '{wrong}' does not divide a text in three: give the percents for" in line
    line = complaint(2, *build, "--text", "docs", "--split", "0,50,50")
    assert "falls into 'train' (0,50,50 percent): give it a larger share with --split" in line
    run_verb(capsys, "build", tiny_model, "--text", mixed / "page.html", "--out", "plain")
    assert "built from a text without splits: give another text with --text" in complaint(
        2, "tune", "plain"
    )


def test_a_part_without_documents_is_said_before_and_after_the_build(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ("build", tiny_model, "--text", "docs", "--split", "100,0,0", "--out", "store")
    out, error = run_verb(capsys, *build)
    assert "note: no document is left for validation and test: give them a larger share" in error
    assert "with --split, or use another text" in error
    assert "next: knnlm tune store --text VALID\n" in out
    assert run(["tune", "store"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert (
        "falls into 'valid' (100,0,0 percent): build again with a larger share for it, or" in line
    )
    assert "--split" not in line


def test_what_is_known_of_a_text_does_not_divide_it(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mixed.parent / "valid.txt").write_text(prose(300, 60))
    build = ("build", tiny_model, "--text", "docs", "--meta", "author=me", "--out", "store")
    out, error = run_verb(capsys, *build)
    assert "no document is left" not in error
    assert "next: knnlm tune store --text VALID\n" in out
    out, _ = run_verb(capsys, "tune", "store", "--text", "valid.txt", "--k", "8")
    assert "next: knnlm eval store --text TEST" in out


def test_an_index_is_advised_where_there_are_many_entries(
    mixed: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(defaults, "MANY_ENTRIES", 100)
    out, _ = run_verb(capsys, "build", tiny_model, "--text", "docs", "--out", "store")
    assert "VALID, or knnlm index store first to search faster\n" in out


def test_an_untuned_datastore_that_was_divided_needs_no_text(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ("build", tiny_model, "--text", "docs", "--split", "60,20,20", "--out", "store")
    run_verb(capsys, *build)
    assert run(["generate", "store", "the cat", "--metric", "ip"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    advised = line.partition("run '")[2].partition("'")[0]
    assert advised == "knnlm tune store --metric ip"
    run_verb(capsys, *advised.split()[1:])
    run_verb(capsys, "generate", "store", "the cat", "--metric", "ip", "--max-new-tokens", "2")


def test_a_folder_that_moved_is_divided_as_before(
    mixed: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ("build", tiny_model, "--text", "docs", "--split", "60,20,20", "--out", "store")
    run_verb(capsys, *build)
    tune = ("tune", "store", "--k", "8", "--json")
    before, _ = run_verb(capsys, *tune)
    mixed.rename(mixed.parent / "docs moved")
    assert run(["tune", "store"]) == 2
    line = capsys.readouterr().err
    assert "the text of store is no longer at docs: give its new path with --text" in line
    after, error = run_verb(capsys, *tune, "--text", "docs moved")
    assert json.loads(after) == json.loads(before)
    assert "its 'valid' part is read, divided as before" in error
    out, _ = run_verb(capsys, "tune", "store", "--k", "8", "--text", "docs moved")
    assert "next: knnlm eval store --text 'docs moved'\n" in out
    out, error = run_verb(capsys, "eval", "store", "--text", "docs moved", "--json")
    assert "'test' part is read" in error
    # another text is read whole, and so is the folder for whoever means it
    (mixed.parent / "other").mkdir()
    for number in range(3):
        (mixed.parent / "other" / f"{number}.txt").write_text(prose(400 + number, 30))
    _, error = run_verb(capsys, "eval", "store", "--text", "other")
    _, whole = run_verb(capsys, "eval", "store", "--text", "docs moved", "--allow-overlap")
    assert "part is read" not in error + whole
    allowed = ("tune", "store", "--k", "8", "--text", "docs moved", "--allow-overlap")
    out, _ = run_verb(capsys, *allowed)
    assert re.search(r"^beware: \d+% of this text is in the datastore", out, re.MULTILINE)
    out, _ = run_verb(capsys, *allowed, "--json")
    assert json.loads(out)["overlap"] > 0.5


def test_a_folder_that_needs_an_extra_says_so(
    mixed: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setitem(sys.modules, "inscriptis", None)
    build = ("build", tiny_model, "--text", "docs", "--out", "store")
    _, error = run_verb(capsys, *build, "--split", "60,20,20")
    note = (
        "note: skipped 2 .pdf whose converter is missing, 1 .html whose converter is missing: "
        "run pip install pypdf inscriptis"
    )
    assert error.count(note) == 1
    only = mixed.parent / "only"
    only.mkdir()
    (only / "a.pdf").write_bytes(b"x")
    for split in ((), ("--split", "90,5,5")):
        assert run(["build", str(tiny_model), "--text", "only", "--out", "none", *split]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert "(skipped: 1 .pdf whose converter is missing): run pip install" in line
