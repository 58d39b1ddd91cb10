"""Files that survive a crash: canonical JSON, atomic writes, checksums, one writer at a time."""

import errno
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, Timer
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import (
    canonical,
    checksum_file,
    commit_file,
    explain_os_errors,
    fingerprint,
    finite,
    read_json,
    sync_folder,
    write_bytes,
    write_json,
    write_lock,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_equal_values_give_equal_bytes_in_any_order(value: dict[str, Any]) -> None:
    reordered = dict(reversed(value.items()))
    assert canonical(value) == canonical(reordered)
    assert fingerprint(value) == fingerprint(reordered)
    assert json.loads(canonical(value)) == value


def test_different_values_have_different_fingerprints() -> None:
    values: list[Any] = [
        {},
        [],
        {"a": 1},
        {"a": "1"},
        {"a": 1.5},
        {"a": [1]},
        {"b": 1},
        None,
        0,
        "",
        False,
    ]
    assert len({fingerprint(v) for v in values}) == len(values)
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"a": float("nan")})


def test_infinities_and_nan_become_null_and_the_rest_stays() -> None:
    fields = {
        "a": math.inf,
        "b": [1.5, math.nan, (2, -math.inf)],
        "c": "inf",
        "d": 3,
        "e": None,
        "f": True,
    }
    assert finite(fields) == {
        "a": None,
        "b": [1.5, None, [2, None]],
        "c": "inf",
        "d": 3,
        "e": None,
        "f": True,
    }


def test_a_checksum_covers_every_byte_of_a_file_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.files._BLOCK", 7)
    for size in (0, 6, 7, 8, 50):
        (tmp_path / "x").write_bytes(bytes(range(size)))
        assert checksum_file(tmp_path / "x") == xxhash.xxh3_64_hexdigest(bytes(range(size)))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_dies_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_bytes(tmp_path / "x", b"old")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, die)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    monkeypatch.undo()
    write_bytes(tmp_path / "x", b"new")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {"x": b"new"}


@pytest.mark.parametrize("write", ["bytes", "file"])
def test_bytes_and_folder_are_flushed_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    (tmp_path / "temporary").write_bytes(b"new")
    steps: list[Any] = []
    replace = os.replace

    def rename(temporary: Path, path: Path) -> None:
        steps.append(("rename", Path(temporary).read_bytes()))
        replace(temporary, path)

    monkeypatch.setattr(os, "fsync", lambda handle: steps.append(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", rename)
    if write == "bytes":
        write_bytes(tmp_path / "x", b"new")
    else:
        commit_file(tmp_path / "temporary", tmp_path / "x")
        assert not (tmp_path / "temporary").exists()
    inode, folder = (tmp_path / "x").stat().st_ino, tmp_path.stat().st_ino
    assert steps == [inode, ("rename", b"new"), folder]


def test_a_file_is_written_where_folders_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_handle = os.open

    def refuse_folders(path: Any, *args: Any, **options: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # as Windows does
        return open_handle(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse_folders)
    write_json(tmp_path / "x.json", {"a": 1})
    assert read_json(tmp_path / "x.json") == {"a": 1}


@pytest.mark.parametrize(
    ("number", "raised"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)]
)
def test_only_a_system_that_cannot_flush_folders_is_forgiven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
) -> None:
    def fail_on_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    if raised:
        with pytest.raises(OSError, match="Input/output error"):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


@given(
    st.dictionaries(
        st.text().filter(lambda k: k not in ("checksum", "format")), json_values, max_size=4
    )
)
def test_json_is_read_back_as_it_was_written(value: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        write_json(Path(folder) / "x.json", value)
        assert read_json(Path(folder) / "x.json", newest_format=1) == value


FIELDS = {
    "format": 1,
    "name": "Müller ½",
    "x": 0.30000000000000004,
    "y": 1e-07,
    "list": [1, {"deep": None}],
    "z": True,
}


def damaged(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=rf"{file.name} is damaged .*: restore or rebuild it"):
        read_json(file, newest_format=1)


def test_every_flipped_bit_of_a_json_file_is_detected(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", FIELDS)
    good = (tmp_path / "x.json").read_bytes()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        damaged(tmp_path / "x.json", bytes(bad))


def test_every_truncation_of_a_json_file_is_detected(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", FIELDS)
    good = (tmp_path / "x.json").read_bytes()
    for length in range(len(good)):
        damaged(tmp_path / "x.json", good[:length])


@pytest.mark.parametrize(
    "junk", [b"[1, 2]", b"3", b"{}", b'{"x": NaN}', b'{"x": 1e999}', b"\xff\xfe", b"\0" * 99]
)
def test_a_file_that_knnlm_did_not_write_is_damaged(tmp_path: Path, junk: bytes) -> None:
    damaged(tmp_path / "x.json", junk)


def test_a_newer_format_is_refused_only_where_a_limit_is_given(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"format": 3})
    assert (
        read_json(tmp_path / "x.json")
        == read_json(tmp_path / "x.json", newest_format=3)
        == {"format": 3}
    )
    with pytest.raises(
        KnnlmError,
        match=r"x\.json has format 3 but this knnlm reads up to 2: install a newer knnlm",
    ):
        read_json(tmp_path / "x.json", newest_format=2)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (
            errno.ENOSPC,
            "the disk under /there is full: free some space and run the same command again",
        ),
        (errno.EDQUOT, "the disk under /there is full"),
        (errno.EACCES, r"cannot write /there \(Permission denied\): choose another folder"),
        (errno.EROFS, r"cannot write /there \(Read-only file system\)"),
    ],
)
def test_a_refusal_of_the_disk_becomes_one_sentence(number: int, sentence: str) -> None:
    with pytest.raises(KnnlmError, match=sentence), explain_os_errors(Path("/there")):
        raise OSError(number, os.strerror(number))


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(OSError, match="Input/output error"), explain_os_errors(Path("/there")):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


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
        "import sys, pathlib, knnlm.files\n"
        "with knnlm.files.write_lock(pathlib.Path(sys.argv[1])): print(1, flush=True); input()"
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


@pytest.mark.parametrize("depth", [200, 500, 900, 1100, 100_000])
def test_json_that_is_nested_too_deep_is_damaged(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(DamagedError, match=r"deep\.json is damaged \("):
        read_json(file)
