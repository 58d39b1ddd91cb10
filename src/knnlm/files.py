"""What is in files: JSON with its own checksum, fingerprints of values, checksums of other files.

How files get on disk is the business of disk.py.
"""

import contextlib
import errno
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash

from knnlm.disk import checksum_file, new_file
from knnlm.errors import DamagedError, KnnlmError

CHECKSUM = "checksum"


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


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The size and the checksum of files, by name, as manifests and records have them."""
    files = {name: folder / name for name in names}
    return {
        name: {"bytes": file.stat().st_size, "xxh3": checksum_file(file)}
        for name, file in files.items()
    }


def changed_file(folder: Path, described: Mapping[str, Mapping[str, Any]]) -> Path | None:
    """The first file that is missing or no longer as `describe_files` found it."""
    for name, before in described.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != before["bytes"]:
            return file
        if checksum_file(file) != before["xxh3"]:
            return file
    return None


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file `path` by `data` in one step."""
    with new_file(path) as file:
        file.write(data)


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
