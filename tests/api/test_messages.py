"""What the library tells the person who waits: through logging, in terms of parameters."""

import ast
import contextlib
import io
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import knnlm
from knnlm import KNNLM, Datastore, Sampling, UsageError
from knnlm.cli.main import _VERBS, run
from knnlm.progress import ProgressBar, log, messages_on_stderr
from tests.hidden_states import models

ROOT = Path(knnlm.__file__).parent


@contextlib.contextmanager
def plain_program(level: int = logging.INFO) -> Iterator[None]:
    """A program that has not set up logging, as pytest has; it may have set knnlm's level."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    log.setLevel(level)
    try:
        yield
    finally:
        root.handlers = before
        log.setLevel(logging.INFO)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_messages_are_plain_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_program():
        log.info("a step is done")
        log.warning("note: little text")
    assert capsys.readouterr() == ("", "a step is done\nnote: little text\n")


def test_a_program_that_logs_gets_them_instead(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "knnlm"):
        log.info("a step is done")
    assert capsys.readouterr() == ("", "")
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("knnlm", "a step is done")]


def test_a_plain_program_prints_them() -> None:
    code = (
        "from knnlm.progress import log; import logging; log.info('one'); "
        "logging.getLogger('knnlm').setLevel('WARNING'); log.info('two'); log.warning('three')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "one\nthree\n")


def test_nothing_is_printed_to_stdout(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plain_program():
        store = Datastore.build(tiny_model, texts["train"], tmp_path / "store")
        store.build_index()
        model = KNNLM(store).tune(texts["valid"], k=16)
        store.distill(kind="clusters", size=8)
        model.evaluate(texts["test"])
        model.generate("the cat", max_new_tokens=3).explain()
        store.info()
        store.verify()
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert any(line.startswith(("build: ", "read: ")) for line in lines)
    assert any("recall@" in line for line in lines)
    assert any(line.startswith("tuned att l2") for line in lines)


def test_a_quiet_library_only_warns(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plain_program(logging.WARNING):
        store = Datastore.build(tiny_model, texts["train"], tmp_path / "store")
        KNNLM(store).tune(texts["valid"], k=16)
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()  # a warning is still said
    assert line.startswith("note: fitted on only")


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_a_bar_is_shown_on_a_terminal_unless_quiet(
    monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with plain_program(level), ProgressBar("build", 10, "tokens") as bar:
        bar.advance(10)
        assert (bar.bar is not None) == (level == logging.INFO)
    assert ("build: 10 tokens" in terminal.getvalue()) == (level == logging.INFO)
    assert level == logging.INFO or terminal.getvalue() == ""


def test_the_command_line_prints_them_whatever_is_set_up(
    tuned_store: Path, texts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert logging.getLogger().handlers  # pytest's
    store = shutil.copytree(tuned_store, tmp_path / "store")
    assert run(["tune", str(store), "--text", str(texts["valid"]), "--exact", "--k", "8"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith("note: fitted on only 761 tokens")
    assert "att l2, exact search" not in output.err  # a result is printed once, on stdout
    assert output.out.count("att l2, exact search, k 8, λ") == 1
    log.info("after the command")
    assert capsys.readouterr().err == ""


def test_rewriting_ends_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_stderr(str.upper):
        log.info("inside")
        with messages_on_stderr():
            log.info("inner")
    log.info("outside")
    assert capsys.readouterr().err == "INSIDE\ninner\n"


def test_the_command_line_shows_flags_in_messages_too(
    tmp_path: Path, tiny_model: Path, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    models.make("StableLm", vocab_size=320).save_pretrained(tmp_path / "model")
    for file in tiny_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "model")
    words: list[Any] = [tmp_path / "model", "--text", texts["valid"], "--out", tmp_path / "store"]
    assert run(["build", *map(str, words)]) == 0
    error = capsys.readouterr().err
    assert "use --keys ffn, or name the last block's feed-forward layer with --att-module" in error
    assert "`" not in error


def test_errors_name_parameters() -> None:
    with pytest.raises(UsageError, match="^`top_p` 7 is out of range: choose a number above 0"):
        Sampling(top_p=7)


LIBRARY = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in ("cli", "paper", "experiments", "integrations")
]


# parts of stored records and of style sheets, not what a user is told to do
NOT_MESSAGES = (", as named by --att-module", "var(--series-")


def strings(path: Path) -> Iterator[str]:
    """The constants of a module that are not docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_messages_of_the_library_name_no_flag_and_no_command(path: Path) -> None:
    """The command line turns `KNNLM.tune` and `lam` into 'knnlm tune' and --lambda."""
    for text in strings(path):
        word_of_a_recorded_command = re.fullmatch(r"--[a-z-]+", text)
        if word_of_a_recorded_command or text.startswith(NOT_MESSAGES):
            continue
        assert not re.search(r"--[a-z]|['`]knnlm [a-z]", text), text


def test_every_method_that_messages_name_has_a_verb() -> None:
    """A message that names another one would reach the command line as it is."""
    named = {
        name
        for path in sorted(ROOT.rglob("*.py"))
        for text in strings(path)
        for name in re.findall(r"`((?:Datastore|KNNLM)\.\w+)`", text)
    }
    assert named == _VERBS.keys() - {"train"}
