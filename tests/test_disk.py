"""Files on disk: whole or not at all, flushed, summed; what a killed writer left is deleted."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xxhash

from knnlm import disk
from knnlm.disk import (
    checksum_file,
    explain_os_errors,
    new_file,
    refuse_links,
    remove_folder,
    sync_folder,
)
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json, write_bytes, write_json


def test_a_checksum_covers_every_byte_of_a_file_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.disk._BLOCK", 7)
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


def test_bytes_and_folder_are_flushed_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []
    replace = os.replace

    def rename(temporary: Path, path: Path) -> None:
        steps.append(("rename", Path(temporary).read_bytes()))
        replace(temporary, path)

    monkeypatch.setattr(os, "fsync", lambda handle: steps.append(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", rename)
    write_bytes(tmp_path / "x", b"new")
    inode, folder = (tmp_path / "x").stat().st_ino, tmp_path.stat().st_ino
    assert steps == [inode, ("rename", b"new"), folder]


def test_no_link_beside_a_file_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "x.tmp").symlink_to(tmp_path / "precious")
    (tmp_path / "x").symlink_to(tmp_path / "precious")
    write_bytes(tmp_path / "x", b"new")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert (tmp_path / "x").read_bytes() == b"new"
    assert not (tmp_path / "x").is_symlink()


def test_a_link_under_the_temporary_name_itself_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "guessed").symlink_to(tmp_path / "precious")
    monkeypatch.setattr(disk, "temporary_name", lambda path: tmp_path / "guessed")
    with pytest.raises(KnnlmError, match=r"cannot write .*x \(File exists\)"):
        write_bytes(tmp_path / "x", b"new")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert (tmp_path / "guessed").is_symlink()


def test_a_new_file_has_the_mode_that_the_user_gives_new_files(tmp_path: Path) -> None:
    before = os.umask(0o026)
    try:
        write_bytes(tmp_path / "x", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_the_longest_names_can_be_written(tmp_path: Path) -> None:
    for name in ("x" * 255, "\N{SNOWMAN}" * 85):
        write_bytes(tmp_path / name, b"new")
    assert len(list(tmp_path.iterdir())) == 2


KILLED = """
import os, signal, sys, pathlib, knnlm.files
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
knnlm.files.write_bytes(pathlib.Path(sys.argv[1]), b"half")
"""


def test_what_a_killed_writer_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    write_bytes(tmp_path / "x", b"old")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "x")])
        assert done.returncode == -signal.SIGKILL
        assert (tmp_path / "x").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2  # that of the second writer
    write_bytes(tmp_path / "x", b"new")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {"x": b"new"}


def test_only_dead_writers_of_the_same_file_are_cleaned_up_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"

    def left(beside: Path = path, **attributes: Any) -> Path:
        with monkeypatch.context() as patch:
            for name, value in attributes.items():
                patch.setattr(disk, name, value)
            file = disk.temporary_name(beside)
            file.write_bytes(b"half")
        return file

    old = left(_MACHINE="ffffff")
    os.utime(old, (0, 0))
    dead = [old, left(_PROCESS="00000000")]  # the number of this process, in an earlier life
    own = disk.temporary_name(path).name
    kept = [
        left(),  # another thread's
        path.with_name(own.replace(f"-{os.getpid()}-", f"-{os.getppid()}-")),
        left(_MACHINE="ffffff"),
        left(tmp_path / "x.y", _PROCESS="00000000"),
        path.with_name("x.tmp"),
        path.with_name("x.notes.tmp"),
    ]
    for file in kept:
        file.touch()
    write_bytes(path, b"new")
    assert not any(file.exists() for file in dead)
    assert all(file.exists() for file in kept)


def test_a_full_disk_leaves_nothing_of_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_bytes(tmp_path / "x", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KnnlmError, match="the disk under .*x is full: free some space"):
        write_bytes(tmp_path / "x", b"new")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {"x": b"old"}


@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_a_file_that_reads_back_as_something_else_does_not_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    def harmful(handle: int) -> None:
        if harm == "cut":
            os.ftruncate(handle, 3)
        else:
            os.pwrite(handle, b"?", 1)

    monkeypatch.setattr(os, "fsync", harmful)
    with (
        pytest.raises(DamagedError, match="x was written and reads back as something else: check"),
        new_file(tmp_path / "x", read_back=True) as file,
    ):
        file.write(b"what was meant")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("No space left on device (os error 28)", "the disk under /there is full"),
        ("I/O error: Permission denied (os error 13)", r"cannot write /there \(Permission denied"),
    ],
)
def test_an_error_of_the_disk_that_a_library_in_rust_tells_is_the_same_sentence(
    text: str, sentence: str
) -> None:
    with pytest.raises(KnnlmError, match=sentence), explain_os_errors(Path("/there")):
        raise Exception(text)


def test_a_linked_folder_is_neither_written_into_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "cache").symlink_to(tmp_path / "elsewhere")
    sentence = r"store/cache is a symbolic link, and nothing is written or deleted behind it: put a"
    for refused in (refuse_links, remove_folder):
        with pytest.raises(KnnlmError, match=sentence):
            refused(tmp_path / "store" / "cache" / "deep", tmp_path / "store")
    assert (tmp_path / "elsewhere" / "deep").is_dir()
    own = tmp_path / "store" / "cache"
    refuse_links(own / "deep", own)  # the folder itself may be a link
    remove_folder(own / "deep", own)
    assert not (tmp_path / "elsewhere" / "deep").exists()
    remove_folder(own / "deep", own)  # gone already
