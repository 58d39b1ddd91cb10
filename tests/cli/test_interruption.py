"""Ctrl-C gets one sentence and exit code 1, also while modules are imported."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import knnlm
from knnlm.cli.interruption import handle_interrupts, ignore_interrupts, say_interrupted

SOURCES = Path(knnlm.__file__).parents[1]
PRESSED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
MODULES = {
    "as it is": PRESSED,
    "swallowed": f"try:\n    exec({PRESSED!r})\nexcept BaseException:\n    pass\n",
    "where it cannot be caught": (
        f"class Late:\n    def __del__(self):\n        exec({PRESSED!r})\nLate()\n"
    ),
}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends itself SIGINT")


@pytest.mark.pipeline
@pytest.mark.parametrize("source", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize(
    ("module", "words", "sentence"),
    [
        ("typer", "--help", "knnlm: interrupted\n"),
        ("rich", "build MODEL", "knnlm: interrupted: run the same command again to resume\n"),
        ("numpy", "info STORE", "knnlm: interrupted\n"),
    ],
)
def test_an_import_is_ended_in_one_sentence(
    module: str, words: str, sentence: str, source: str, tmp_path: Path
) -> None:
    """A module that is imported sends Ctrl-C: the command line's first, and a verb's own."""
    (tmp_path / f"{module}.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), str(SOURCES)])
    done = subprocess.run(
        [sys.executable, "-m", "knnlm", *words.split()],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
def test_elsewhere_it_is_an_exception_and_at_the_end_nothing() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    handle_interrupts()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    ignore_interrupts()
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("handler")
def test_a_job_in_the_background_stays_as_it_was_started() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle_interrupts()
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("words", "resumes"), [("", False), ("--help", False), ("tune x", True), ("serve x", False)]
)
def test_it_is_said_what_resumes(
    capsys: pytest.CaptureFixture[str], words: str, resumes: bool
) -> None:
    assert say_interrupted(words.split()) == 1
    assert ("resume" in capsys.readouterr().err) == resumes
