"""A disk that fails at a chosen step, and forgets what was never flushed to it.

Steps are what a build does to files: make a folder, open a file for writing, write rows, close,
flush, rename, delete."""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knnlm.datastore.npy import NpyWriter
from knnlm.datastore.table import MANIFEST
from knnlm.locks import HOLDER, LOCK


class Crash(BaseException):
    """The process ends here; no handler of ours may catch it."""


class Disk:
    """Counts steps; the step number `fails_at` raises `error` (a write gets half of its rows
    through first). After a crash nothing is written any more."""

    def __init__(self, fails_at: int = 0, error: BaseException | None = None) -> None:
        self.fails_at, self.error, self.steps = fails_at, error or Crash(), 0
        self.flushed: set[int] = set()  # inodes of files
        self.names: dict[
            int, set[str]
        ] = {}  # inode of a folder → what was in it when it was flushed

    def step(self) -> None:
        self.steps += 1
        dead = isinstance(self.error, Crash) and 0 < self.fails_at < self.steps
        if self.steps == self.fails_at or dead:
            raise self.error

    @contextlib.contextmanager
    def in_use(self) -> Iterator["Disk"]:
        """Every write of this process goes through this disk, as if it were a process of its own:
        whoever comes after a crash finds it dead. Nothing is really flushed: that would be slow."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("knnlm.disk._PROCESS", secrets.token_hex(4))
            for owner, name in (
                (os, "mkdir"),
                (os, "unlink"),
                (os, "replace"),
                (NpyWriter, "close"),
            ):
                patch.setattr(owner, name, self._counted(getattr(owner, name)))
            patch.setattr(os, "fsync", self._fsync)
            patch.setattr(NpyWriter, "write", self._torn(NpyWriter.write))
            patch.setattr(Path, "open", self._opened(Path.open))
            yield self

    def lose_power(self, folder: Path) -> None:
        """What was never flushed is gone: names from folders, the second half of files.

        A renamed manifest is kept even if its folder was not flushed: the worst that a disk may do
        is to keep the rename and to lose what it was meant to follow."""
        for place in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
            if not place.exists():
                continue
            kept = self.names.get(place.stat().st_ino, set()) | {MANIFEST, LOCK}
            for entry in [e for e in place.iterdir() if e.name not in kept]:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for file in [
            f for f in folder.rglob("*") if f.is_file() and f.stat().st_ino not in self.flushed
        ]:
            os.truncate(file, file.stat().st_size // 2)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if call.__name__ == "mkdir" and os.path.isdir(given[0]):
                return call(*given, **named)  # nothing is written
            if getattr(given[0], "name", "") != HOLDER:  # who holds the lock is only told
                self.step()
            if call.__name__ in ("unlink", "replace") and os.path.exists(given[-1]):
                self.flushed.discard(
                    os.stat(given[-1]).st_ino
                )  # freed: it may come back as another file
            return call(*given, **named)

        return counted

    def _fsync(self, handle: int) -> None:
        self.step()
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            self.names[found.st_ino] = set(os.listdir(handle))
        else:
            self.flushed.add(found.st_ino)

    def _torn(self, write: Callable[..., None]) -> Callable[..., None]:
        def torn(writer: NpyWriter, values: NDArray[np.generic]) -> None:
            try:
                self.step()
            except BaseException:
                write(writer, values[: len(values) // 2])
                raise
            write(writer, values)

        return torn

    def _opened(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
            if "x" in mode and path.name != HOLDER:
                self.step()
            return call(path, mode, *given, **named)

        return opened


def run(folder: Path, work: Callable[[Path], object]) -> int:
    """Do the work on a disk that does not fail; returns how many steps it took."""
    with Disk().in_use() as disk:
        work(folder)
    return disk.steps
