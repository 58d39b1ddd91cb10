"""Bytes that survive a crash: atomic writes, checksums, fingerprints, one writer at a time.

Knows files and JSON; knows nothing of what they mean. The order of every commit is: write aside,
fsync, rename, fsync the folder, so that a reader sees the old file or the new one and never a
mixture."""

import contextlib
import errno
import fcntl
import json
import math
import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash

from knnlm.errors import DamagedError, KnnlmError

CHECKSUM = "checksum"
_BLOCK = 1 << 24


def canonical(value: Any) -> bytes:
    """JSON with one spelling: sorted keys, no white space, no NaN. Equal values give equal
    bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def finite(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for JSON, which has neither infinity nor NaN: they become null."""
    return {name: _finite(value) for name, value in fields.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def fingerprint(value: Any) -> str:
    """128 bits naming a JSON value; used for cache keys and for telling two things apart."""
    return xxhash.xxh3_128_hexdigest(canonical(value))


def checksum_file(path: Path) -> str:
    """XXH3-64 of the file's bytes. It finds accidents (flipped bits, torn writes), not forgery."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(path: Path) -> None:
    """Make renames inside `path` durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step."""
    aside = path.with_name(path.name + ".tmp")
    with explain_os_errors(path):
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)


def commit_file(aside: Path, path: Path) -> None:
    """Put the finished file `aside` in place of `path`, durably."""
    with explain_os_errors(path):
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` with a checksum of itself inside, readable by people."""
    write_bytes(path, _sealed(value))


def read_json(path: Path, newest_format: int | None = None) -> dict[str, Any]:
    """Read what `write_json` wrote; refuse it if a single bit has changed, or if a newer knnlm
    wrote it.

    A newer knnlm may lay the file out differently, but its checksum must fit: else it is damage
    that looks like news."""
    data = path.read_bytes()
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise DamagedError(f"{path} is damaged (no JSON object in it): restore or rebuild it")
        whole = value.pop(CHECKSUM, None) == fingerprint(value)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged (it is not JSON): restore or rebuild it") from error
    version = value.get("format")
    if whole and newest_format is not None and isinstance(version, int) and version > newest_format:
        raise KnnlmError(
            f"{path} has format {version} but this knnlm reads up to {newest_format}: install a "
            "newer knnlm"
        )
    if data != _sealed(
        value
    ):  # stricter than the checksum: \u00e9 and \u00E9 are one value but not the same bytes
        raise DamagedError(f"{path} is damaged (its checksum differs): restore or rebuild it")
    return value


def _sealed(value: Mapping[str, Any]) -> bytes:
    return (
        json.dumps({**value, CHECKSUM: fingerprint(value)}, indent=1, allow_nan=False) + "\n"
    ).encode()


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn "no space left", "no permission", "a file is in the way" and their kin into one
    sentence."""
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
    """Let this process hold as many files open as the system permits; each memory-mapped file
    counts as one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems refuse "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise KnnlmError(
                f"{path} has more files than may be open at once: raise the limit (ulimit -n)"
            ) from error
        raise


@contextlib.contextmanager
def write_lock(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the folder's write lock; a second writer is told so, after `patience` seconds of trying.

    The kernel frees the lock when its holder dies.
    """
    until = time.monotonic() + patience
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise KnnlmError(
                        f"another process is writing to {folder}: wait for it to end, then run the "
                        "same command again"
                    ) from error
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)
