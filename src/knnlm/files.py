"""Files that survive a crash: atomic writes, checksums, fingerprints, one writer at a time.

Every commit writes a temporary file, flushes it to disk, renames it and flushes the folder, so that
a reader sees the old file or the new one and never a mixture. This works on Linux, macOS and
Windows; docs/format.md says where a guarantee is weaker.
"""

import contextlib
import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash
from filelock import FileLock, Timeout

from knnlm.errors import DamagedError, KnnlmError

CHECKSUM = "checksum"
_BLOCK = 1 << 24
_LOCK_POLL_SECONDS = 0.05
# What systems answer that cannot flush a folder: Windows does not even open one.
_NOT_FLUSHABLE = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.EBADF, errno.EINVAL, errno.ENOTSUP)


def short_path(path: Path) -> str:
    """A path as seen from the working folder, if it is below that."""
    return shorten_paths(str(path))


def shorten_paths(message: str) -> str:
    """A message in which paths below the working folder begin there."""
    try:
        here = f"{Path.cwd()}{os.sep}"
    except OSError:  # the folder is gone
        return message
    # only where a path begins: /mnt/data/x has nothing to do with the folder /data
    return re.sub(rf"(?<![^\s'\"(`]){re.escape(here)}(?=[^\s])", "", message)


def canonical(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes.

    Args:
        value: Anything that JSON can hold.

    Returns:
        UTF-8 JSON with sorted keys and no white space.

    Raises:
        ValueError: If a number is infinite or NaN.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def finite(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Replace infinities and NaN, which JSON does not have, by None, also inside lists."""
    return {name: _finite(value) for name, value in fields.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def fingerprint(value: Any) -> str:
    """Name a JSON value by 128 bits (XXH3-128 of its canonical JSON, in hex)."""
    return xxhash.xxh3_128_hexdigest(canonical(value))


def checksum_file(path: Path) -> str:
    """Return the XXH3-64 of a file in hex: it detects accidents (flipped bits), not forgery."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


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


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file `path` by `data` in one step."""
    temporary = path.with_name(path.name + ".tmp")
    with explain_os_errors(path):
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)


def commit_file(temporary: Path, path: Path) -> None:
    """Replace the file `path` by the finished file `temporary` in one step."""
    with explain_os_errors(path):
        with temporary.open("r+b") as file:  # Windows flushes only files opened for writing
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as indented JSON with its own checksum as one more field."""
    write_bytes(path, _with_checksum(value))


def read_json(path: Path, newest_format: int | None = None) -> dict[str, Any]:
    """Read what `write_json` wrote.

    Args:
        path: The file.
        newest_format: The highest value of the field `format` that the caller can read.

    Returns:
        The fields, without the checksum.

    Raises:
        DamagedError: If a single bit has changed.
        KnnlmError: If a newer knnlm wrote the file.
    """
    data = path.read_bytes()
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise DamagedError(f"{path} is damaged (no JSON object in it): restore or rebuild it")
        intact = value.pop(CHECKSUM, None) == fingerprint(value)
        again = _with_checksum(value)
    except (ValueError, RecursionError) as error:  # the latter of lists in lists in lists …
        raise DamagedError(f"{path} is damaged (it is not JSON): restore or rebuild it") from error
    number = value.get("format")
    # Only an intact file is newer; in another, the number may be what was damaged.
    if intact and newest_format is not None and isinstance(number, int) and number > newest_format:
        raise KnnlmError(
            f"{path} has format {number} but this knnlm reads up to {newest_format}: install a "
            "newer knnlm"
        )
    # Stricter than the checksum: \u00e9 and \u00E9 are one value but not the same bytes.
    if data != again:
        raise DamagedError(f"{path} is damaged (its checksum differs): restore or rebuild it")
    return value


def _with_checksum(value: Mapping[str, Any]) -> bytes:
    text = json.dumps({**value, CHECKSUM: fingerprint(value)}, indent=1, allow_nan=False)
    return f"{text}\n".encode()


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn a full disk, missing permission or a file in the way into a one-sentence `KnnlmError`.

    Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise KnnlmError(
                f"the disk under {path} is full: free some space and run the same command again; "
                "what was committed so far is kept"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR):
            raise KnnlmError(
                f"cannot write {path} ({error.strerror}): choose another folder"
            ) from error
        raise


@contextlib.contextmanager
def raise_open_file_limit(path: Path) -> Iterator[None]:
    """Let this process hold as many files open as the system permits.

    Each memory-mapped file counts as one. The limit stays raised.

    Args:
        path: The folder whose files are opened, for the message.

    Raises:
        KnnlmError: If that was still not enough.
    """
    _lift_soft_limit()
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise KnnlmError(
                f"{path} has more files than may be open at once: raise the limit (ulimit -n)"
            ) from error
        raise


def _lift_soft_limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit to raise
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems refuse "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def write_lock(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Be the only writer of a folder, which is made if it does not exist.

    The lock is on the file `.lock` in the folder. The system frees it when its holder dies.

    Args:
        folder: The folder to write to.
        patience: How many seconds to wait for another writer to end.

    Raises:
        KnnlmError: If another process, or another part of this one, is still writing.

    Example:
        >>> with write_lock(Path("store")):  # doctest: +SKIP
        ...     write_json(Path("store/tuned.json"), {"lambda": 0.25})
    """
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # A generator may be closed by another thread than the one that started it.
        lock = FileLock(folder / ".lock", thread_local=False)
        try:
            lock.acquire(timeout=patience, poll_interval=_LOCK_POLL_SECONDS)
        except Timeout as error:
            raise KnnlmError(
                f"another process is writing to {folder}: wait for it to end, then run the "
                "same command again"
            ) from error
    try:
        yield
    finally:
        lock.release()
