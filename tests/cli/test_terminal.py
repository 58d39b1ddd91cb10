"""Nothing that a corpus, a model or a file name says can steer the terminal it is shown on."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest
import torch

from knnlm.cli.main import run
from knnlm.errors import KnnlmError
from knnlm.models.presets import SMOKE, new_model
from knnlm.text.tokenizer import train_tokenizer

pytestmark = pytest.mark.pipeline
STEERING = "\x1b]0;owned\x07 \x1b[31mred\x9b2J \u202ebidi\rover \x08\x08 tab\tend\n"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows control characters, texts of them under such names, and a datastore."""
    folder = tmp_path_factory.mktemp("terminal")
    tokenizer = train_tokenizer([STEERING * 9], 270)
    preset = dataclasses.replace(SMOKE, width=16, layers=2, heads=2, context=48)
    torch.manual_seed(0)
    new_model(preset, len(tokenizer), tokenizer.bos_token_id).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "docs").mkdir()
    for name in ("a\x1b[2Jb.txt", "plain.txt"):
        (folder / "docs" / name).write_text(f"{name} {STEERING}" * 40, newline="")
    (folder / "docs" / "\x1b[2Jempty.txt").write_text("")
    (folder / "valid.txt").write_text(f"the cat {STEERING}" * 20, newline="")
    build = ["build", folder / "model", "--text", folder / "docs", "--out", folder / "store"]
    assert run([str(word) for word in [*build, "--meta", "author=\x1b[2J"]]) == 0
    tune = ["tune", folder / "store", "--text", folder / "valid.txt", "--allow-overlap"]
    assert run([str(word) for word in [*tune, "--k", "8"]]) == 0
    return folder


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "info STORE"),
        (0, "verify STORE"),
        (0, "eval STORE --text VALID --allow-overlap"),
        (2, "eval STORE --text DOCS"),
        (2, "eval STORE --text \x1b[2J"),
        (1, "eval \x1b[2J --text VALID"),
        (2, "eval STORE --\x1b[2J"),
        (2, "\x1b[2J"),
        (0, "build MODEL --text DOCS --out NEW --verbose"),
        (0, "generate STORE \x1b]0; --explain --lambda 1 --max-new-tokens 20"),
        (0, "generate STORE \x1b]0; --compare --lambda 1 --max-new-tokens 20"),
        (0, "generate STORE \x1b]0; --compare --max-new-tokens 9 --temperature 9"),
    ],
)
def test_what_is_printed_is_visible(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    tmp_path: Path,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    names = {"STORE": "store", "VALID": "valid.txt", "DOCS": "docs", "MODEL": "model"}
    paths = {word: folder / name for word, name in names.items()} | {"NEW": tmp_path / "new"}
    capsys.readouterr()
    assert run([str(paths.get(word, word)) for word in words.split(" ")]) == code
    output = capsys.readouterr()
    assert output.out + output.err
    for text in (output.out, output.err):
        assert CONTROL.search(text) is None, repr(text)


def test_a_text_for_a_file_stays_as_it_is(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    generate = ["generate", str(folder / "store"), "\x1b]0;", "--lambda", "1"]
    capsys.readouterr()
    assert run([*generate, "--max-new-tokens", "20"]) == 0
    assert "\x1b[31m" in capsys.readouterr().out


def test_errors_of_the_library_can_be_printed_anywhere() -> None:
    assert str(KnnlmError("no document a\x1b[2J\ud800.txt\n")) == "no document a␛[2J‹U+D800›.txt\n"
