"""Files and folders on disk: written whole or not at all, flushed, summed, deleted.

A file is written under a temporary name, flushed to disk and renamed; then the folder is flushed. A
reader sees the old file or the new one and never a mixture. This works on Linux, macOS and Windows;
docs/format.md says where a guarantee is weaker.

The temporary file of NAME is NAME.MACHINE-PROCESS-RANDOM.tmp beside it. Nobody can guess it and put
a link there, and the next writer of NAME deletes what a writer that was killed left.
"""

import contextlib
import errno
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import xxhash

from knnlm.errors import DamagedError, KnnlmError

_BLOCK = 1 << 24
# What systems answer that cannot flush a folder: Windows does not even open one.
_NOT_FLUSHABLE = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.EBADF, errno.EINVAL, errno.ENOTSUP)
_NOT_PERMITTED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)
_MACHINE = xxhash.xxh3_64_hexdigest(platform.node().encode())[:6]
_PROCESS = secrets.token_hex(4)  # the number of a process may come back, this does not
_A_DAY = 24 * 60 * 60.0


class NewFile:
    """A file that is being written; what goes through `write` is counted and summed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self.bytes = file, xxhash.xxh3_64(), 0

    @property
    def checksum(self) -> str:
        """XXH3-64 of the bytes so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)


@contextlib.contextmanager
def new_file(path: Path, *, read_back: bool = False) -> Iterator[NewFile]:
    """Replace the file `path` in one step by what is written inside the `with` block.

    After an error, or Ctrl-C, the old file stays and nothing of the new one.

    Args:
        path: The file.
        read_back: Whether to read what was flushed and compare it before it takes its name.

    Raises:
        KnnlmError: The disk is full, or does not permit writing.
        DamagedError: What was read back differs.
    """
    with explain_os_errors(path):
        remove_left_over(path)
        temporary = temporary_name(path)
        file = temporary.open("xb")  # x: follows no link
        try:
            with file:
                new = NewFile(file)
                yield new
                file.flush()
                os.fsync(file.fileno())
            if read_back:
                _compare(temporary, path, new)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody can guess, and that says which process writes there."""
    mark = f"{_MACHINE}-{os.getpid()}-{_PROCESS}{secrets.token_hex(4)}"
    return path.with_name(f"{_beginning(path)}.{mark}.tmp")


def _beginning(path: Path) -> str:
    """As much of a name as leaves room for the mark; a file of a dead process is nobody's."""
    return path.name[:40]


def remove_left_over(path: Path) -> None:
    """Delete temporary files beside `path` that a writer of it left when it was killed.

    A writer on another machine cannot be asked: its files are deleted when they are a day old.
    """
    marked = re.compile(
        re.escape(_beginning(path)) + r"\.([0-9a-f]{6})-([0-9]{1,9})-([0-9a-f]{8})[0-9a-f]{8}\.tmp"
    )
    with contextlib.suppress(OSError):
        for file in path.parent.iterdir():
            if (mark := marked.fullmatch(file.name)) is None:
                continue
            with contextlib.suppress(OSError):
                ended = _has_ended(mark[1], int(mark[2]), mark[3])
                if ended or time.time() - file.lstat().st_mtime > _A_DAY:
                    file.unlink()


def _has_ended(machine: str, number: int, process: str) -> bool:
    """Whether the process that made a temporary file is known to have ended."""
    if machine != _MACHINE:
        return False
    if number == os.getpid():
        return process != _PROCESS
    if os.name == "nt":  # there, signal 0 is Ctrl-C; and a file that is open cannot be deleted
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's
        pass
    return False


def _compare(temporary: Path, path: Path, new: NewFile) -> None:
    if temporary.stat().st_size != new.bytes or checksum_file(temporary) != new.checksum:
        raise DamagedError(
            f"{path} was written and reads back as something else: check the disk under it, then "
            "run the same command again"
        )


def checksum_file(path: Path) -> str:
    """Return the XXH3-64 of a file in hex: it detects accidents (flipped bits), not forgery."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def flush_file(path: Path) -> None:
    """Flush a finished file, which somebody else wrote, to disk."""
    with path.open("r+b") as file:  # Windows flushes only files opened for writing
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make renames inside the folder `path` durable, where the system can flush a folder."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NOT_FLUSHABLE:
            raise


def refuse_links(folder: Path, below: Path) -> None:
    """Refuse to write into a folder of ours that is a symbolic link, or is reached through one.

    Args:
        folder: The folder.
        below: The folder of ours that it is inside of; that one may be a link, or behind one.

    Raises:
        KnnlmError: It is.
    """
    each = below
    for name in folder.relative_to(below).parts:
        each /= name
        if each.is_symlink():
            raise KnnlmError(
                f"{each} is a symbolic link, and nothing is written or deleted behind it: put a "
                "folder in its place, then run the same command again"
            )


def remove_folder(folder: Path, below: Path, *, ignore_errors: bool = False) -> None:
    """Delete a folder of ours, if it is there.

    Args:
        folder: The folder.
        below: The folder of ours that it is inside of.
        ignore_errors: Whether to leave what cannot be deleted.

    Raises:
        KnnlmError: It is a symbolic link, or is reached through one.
    """
    refuse_links(folder, below)
    if folder.is_dir():
        shutil.rmtree(folder, ignore_errors=ignore_errors)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn a full disk, missing permission or a file in the way into a one-sentence `KnnlmError`.

    Other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number in (errno.ENOSPC, errno.EDQUOT):
            raise KnnlmError(
                f"the disk under {path} is full: free some space and run the same command again; "
                "what was committed so far is kept"
            ) from error
        if number in _NOT_PERMITTED:
            raise KnnlmError(
                f"cannot write {path} ({os.strerror(number)}): choose another folder"
            ) from error
        raise


def _error_number(error: Exception) -> int | None:
    """The system's number of an error. Libraries in Rust (tokenizers, safetensors) have exceptions
    of their own for such errors, and only their text has it."""
    if isinstance(error, OSError):
        return error.errno
    told = None if isinstance(error, KnnlmError) else re.search(r"\(os error (\d+)\)", str(error))
    return None if told is None else int(told[1])
