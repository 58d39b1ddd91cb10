"""One writer of a folder at a time.

    FOLDER/.lock           the lock, which the system frees when its holder dies
    FOLDER/.lock-holder    who holds it: process, machine and time, for the message to others

Who holds the lock is only told, never believed: a holder that died leaves its note, and the next
one replaces it.
"""

import contextlib
import json
import os
import platform
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from knnlm.disk import explain_os_errors
from knnlm.errors import KnnlmError

LOCK, HOLDER = ".lock", ".lock-holder"
_POLL_SECONDS = 0.05


@contextlib.contextmanager
def write_lock(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Be the only writer of a folder, which is made if it does not exist.

    Args:
        folder: The folder to write to.
        patience: How many seconds to wait for another writer to end.

    Raises:
        KnnlmError: If another process, or another part of this one, is still writing; or the file
            of the lock is a symbolic link.

    Example:
        >>> with write_lock(Path("store")):  # doctest: +SKIP
        ...     write_json(Path("store/tuned.json"), {"lambda": 0.25})
    """
    file, holder = folder / LOCK, folder / HOLDER
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            raise KnnlmError(
                f"{file} is a symbolic link, which is not followed: delete it, then run the same "
                "command again"
            )
        # A generator may be closed by another thread than the one that started it.
        lock = FileLock(file, thread_local=False)
        try:
            lock.acquire(timeout=patience, poll_interval=_POLL_SECONDS)
        except Timeout as error:
            raise KnnlmError(
                f"another process is writing to {folder}{_told(holder)}: wait for it to end, then "
                "run the same command again"
            ) from error
    try:
        with explain_os_errors(folder):
            _tell(holder)
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink()
        lock.release()


def _tell(holder: Path) -> None:
    """Write down who holds the lock, instead of what a holder that died has left."""
    holder.unlink(missing_ok=True)
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    with holder.open("x") as file:  # x: follows no link
        json.dump({"process": os.getpid(), "machine": platform.node(), "since": since}, file)


def _told(holder: Path) -> str:
    """Who holds the lock, as far as it is known."""
    try:
        note = json.loads(holder.read_text())
        return f" (process {note['process']} on {note['machine']}, since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # not written yet, or half
        return ""
