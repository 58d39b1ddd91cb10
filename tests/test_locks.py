"""One writer of a folder at a time, and who it is."""

import errno
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread, Timer

import pytest

from knnlm.errors import KnnlmError
from knnlm.locks import HOLDER, LOCK, write_lock


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_file_instead_of_a_folder_is_one_sentence(tmp_path: Path, below: str) -> None:
    (tmp_path / "x").write_text("a file")
    with (
        pytest.raises(KnnlmError, match=r"cannot write .*: choose another folder"),
        write_lock(tmp_path / "x" / below),
    ):
        pass


@pytest.fixture
def other_writer(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that writes to the folder until it is killed."""
    program = (
        "import sys, pathlib, knnlm.locks\n"
        "with knnlm.locks.write_lock(pathlib.Path(sys.argv[1])): print(1, flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        yield process
        process.kill()


def test_a_second_writer_is_refused_until_the_first_is_dead(
    tmp_path: Path, other_writer: "subprocess.Popen[str]"
) -> None:
    with (
        pytest.raises(KnnlmError, match="another process is writing to .*: wait for it to end"),
        write_lock(tmp_path),
    ):
        pytest.fail("two writers at once")
    other_writer.send_signal(signal.SIGKILL)
    other_writer.wait()
    with write_lock(tmp_path):
        pass


def test_a_patient_writer_waits_for_the_first_to_end(
    tmp_path: Path, other_writer: "subprocess.Popen[str]"
) -> None:
    Timer(0.15, other_writer.kill).start()
    with write_lock(tmp_path, patience=20):
        assert other_writer.wait() == -signal.SIGKILL


def test_a_patient_writer_gives_up_in_the_end(
    tmp_path: Path, other_writer: "subprocess.Popen[str]"
) -> None:
    start = time.monotonic()
    with (
        pytest.raises(KnnlmError, match="another process is writing"),
        write_lock(tmp_path, patience=0.2),
    ):
        pytest.fail("two writers at once")
    assert time.monotonic() - start >= 0.2


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with (
        write_lock(tmp_path / "new" / "folder"),
        pytest.raises(KnnlmError, match="another process is writing"),
        write_lock(tmp_path / "new" / "folder"),
    ):
        pytest.fail("two writers at once")


def test_a_second_writer_in_another_thread_is_refused(tmp_path: Path) -> None:
    messages: list[str] = []

    def write() -> None:
        try:
            with write_lock(tmp_path):
                messages.append("two writers at once")
        except KnnlmError as error:
            messages.append(str(error))

    with write_lock(tmp_path):
        thread = Thread(target=write)
        thread.start()
        thread.join()
    assert len(messages) == 1
    assert messages[0].startswith("another process is writing to")


def test_another_thread_may_free_the_lock(tmp_path: Path) -> None:
    lock = write_lock(tmp_path)
    lock.__enter__()
    thread = Thread(target=lock.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with write_lock(tmp_path):
        pass


def test_an_error_frees_the_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), write_lock(tmp_path):
            raise ZeroDivisionError


def test_the_second_writer_is_told_who_the_first_is(
    tmp_path: Path, other_writer: "subprocess.Popen[str]"
) -> None:
    who = rf"process {other_writer.pid} on {re.escape(platform.node())}, since 20\d\d-\d\d-\d\d \d"
    with (
        pytest.raises(KnnlmError, match=rf"another process is writing to .* \({who}.*\): wait for"),
        write_lock(tmp_path),
    ):
        pytest.fail("two writers at once")


def test_the_note_of_a_dead_holder_is_replaced_and_goes_with_the_lock(
    tmp_path: Path, other_writer: "subprocess.Popen[str]"
) -> None:
    other_writer.kill()
    other_writer.wait()
    assert str(other_writer.pid) in (tmp_path / HOLDER).read_text()
    with (
        write_lock(tmp_path),
        pytest.raises(KnnlmError, match=rf"process {os.getpid()} on"),
        write_lock(tmp_path),
    ):
        pytest.fail("two writers at once")
    assert [file.name for file in tmp_path.iterdir()] == [LOCK]


@pytest.mark.parametrize("note", ["", "{", "[1]", '{"process": 1}', "\xff"])
def test_a_note_that_says_nothing_is_not_told(tmp_path: Path, note: str) -> None:
    with write_lock(tmp_path):
        (tmp_path / HOLDER).write_text(note, encoding="latin-1")
        with (
            pytest.raises(KnnlmError, match=rf"writing to {re.escape(str(tmp_path))}: wait"),
            write_lock(tmp_path),
        ):
            pytest.fail("two writers at once")


@pytest.mark.parametrize("name", [LOCK, HOLDER])
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).symlink_to(tmp_path / "precious")
    if name == LOCK:
        with (
            pytest.raises(KnnlmError, match=r"store/.lock is a symbolic link, which is not foll"),
            write_lock(tmp_path / "store"),
        ):
            pytest.fail("a linked lock was taken")
    else:
        with write_lock(tmp_path / "store"):
            pass
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_disk_that_is_full_for_the_note_is_one_sentence_and_frees_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("knnlm.locks._tell", full)
        with pytest.raises(KnnlmError, match="is full: free some space"), write_lock(tmp_path):
            pytest.fail("it was not told")
    with write_lock(tmp_path):
        pass
