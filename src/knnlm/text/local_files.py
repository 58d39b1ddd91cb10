"""Local files and folders as a source of documents.

A document is named by its path below the folder that was given, so that two README.md differ. What
a folder holds beside text is skipped and counted; what is named itself and cannot be read is an
error.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import checksum_file
from knnlm.progress import log
from knnlm.text import formats, wikitext
from knnlm.text.documents import Document, Split


@dataclass(frozen=True)
class Files:
    """The documents of local files.

    Attributes:
        paths: The files.
        root: The folder below which documents are named; without it, by the names of the files.
        from_folder: Whether the files were found in a folder: one without text is then skipped.
        meta: What is known of all of them, besides path, size and date.
    """

    paths: tuple[Path, ...]
    root: Path | None = None
    from_folder: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    notes_given: set[str] = field(default_factory=set, compare=False, repr=False)
    """So that a text that is read more than once does not repeat them."""

    def describe(self) -> dict[str, Any]:
        """Names, sizes and checksums of the files; folders may move."""
        files = [
            {"name": self.name_of(p), "bytes": p.stat().st_size, "xxh3": checksum_file(p)}
            for p in self.paths
        ]
        described: dict[str, Any] = {"kind": "files", "files": files}
        return {**described, "meta": dict(self.meta)} if self.meta else described

    def __iter__(self) -> Iterator[Document]:
        skipped: Counter[str] = Counter()
        for path in self.paths:
            try:
                yield from self.read(path)
            except formats.NoText as error:
                if not self.from_folder:
                    raise
                log.debug(f"skipped: {error}")
                skipped[formats.suffix_of(path)] += 1
        note = f"note: files without text that could be read: {_counted(skipped)}"
        if skipped and note not in self.notes_given:
            self.notes_given.add(note)
            log.warning(note)

    def read(self, path: Path) -> Iterator[Document]:
        """The documents of one of the files.

        Raises:
            NoText: There is no text in it, or it cannot be converted.
            KnnlmError: The file changed while it was read.
        """
        before = path.stat()
        date = datetime.fromtimestamp(before.st_mtime, UTC).isoformat(timespec="seconds")
        name = self.name_of(path)
        meta = {**self.meta, "path": name, "bytes": before.st_size, "date": date}
        yield from formats.read_documents(path, name, meta)
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise KnnlmError(
                f"{path} changed while it was read: run the same command again once nobody writes "
                "to it"
            )

    def name_of(self, path: Path) -> str:
        """What the document of a file is called."""
        if self.root is None:
            return path.name
        return Path(os.path.relpath(path, self.root)).as_posix()


def find_files(
    paths: Sequence[str | Path], split: Split, meta: Mapping[str, Any] | None = None
) -> Files:
    """Find the text files that paths mean.

    Args:
        paths: Files and folders. A WikiText folder means the file of `split`; any other folder,
            all files in it and below it that can be read (formats.py), in name order, but no
            hidden ones.
        split: Which file of a WikiText folder to read.
        meta: What is known of all documents.

    Raises:
        UsageError: A path does not exist, or a folder holds no text.
    """
    check_paths(paths)
    files: list[Path] = []
    folders = 0
    for path in map(Path, paths):
        if path.is_file():
            files.append(path)
        else:
            wiki = wikitext.wikitext_file(path, split)
            files.extend(_files_of_folder(path) if wiki is None else [wiki])
            folders += wiki is None
    different = {file.resolve(): file for file in reversed(files)}  # the first name of each stays
    if len(different) < len(files):
        log.warning(f"note: {len(files):,} names mean {len(different):,} files; each is read once")
    unique = tuple(file for file in files if different.pop(file.resolve(), None))
    return Files(unique, _root(paths, unique), from_folder=folders > 0, meta=dict(meta or {}))


def check_paths(paths: Sequence[str | Path]) -> None:
    """Raise a UsageError unless every path of a text is a file or a folder."""
    for path in map(Path, paths):
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"there is no file or folder {path}: check the path of the text")


def _root(paths: Sequence[str | Path], files: Sequence[Path]) -> Path | None:
    """The folder that names are below: the one given, or what several paths have in common."""
    if len(paths) == 1:
        return Path(paths[0]) if Path(paths[0]).is_dir() else None
    different_names = len({file.name for file in files}) == len(files)
    if different_names and not any(Path(path).is_dir() for path in paths):
        return None
    return Path(os.path.commonpath([file.absolute().parent for file in files]))


def _files_of_folder(folder: Path) -> list[Path]:
    """The text files of a folder; what is skipped is said in one line."""
    files: list[Path] = []
    skipped: Counter[str] = Counter()
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file():
            continue
        reason = _why_skipped(path)
        if reason is None:
            files.append(path)
        else:
            log.debug(f"skipped: {path} ({reason})")
            skipped[reason] += 1
    if not files:
        raise UsageError(
            f"{folder} holds no text{f' (skipped: {_counted(skipped)})' if skipped else ''}: give "
            "another folder, or name files"
        )
    if skipped:
        log.info(f"{folder}: {len(files):,} files, and {_counted(skipped)} skipped")
    return files


def _why_skipped(path: Path) -> str | None:
    """Why a folder's file is not read; None if it is."""
    if not formats.is_read(path):
        return path.suffix.lower() or "without a suffix"
    try:
        if path.stat().st_size == 0:
            return "empty"
        if formats.suffix_of(path) in formats.CONVERTED:
            return None
        return None if _is_text(path) else "not UTF-8"
    except OSError:
        return "not readable"


def _is_text(path: Path) -> bool:
    """Whether all of a file is UTF-8 without NUL bytes."""
    try:
        with path.open(encoding="utf-8") as file:
            while block := file.read(1 << 20):
                if "\0" in block:
                    return False
    except UnicodeDecodeError:
        return False
    return True


def _counted(reasons: Counter[str]) -> str:
    """2 .png, 1 empty"""
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
