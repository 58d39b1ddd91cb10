"""Local files and folders as a source of documents.

A document of a folder is named by its path below the folder, so that two README.md differ; a file
that is named itself, by its file name. Of several paths each gives its own name, and what is below
a folder has that in front: `docs/guide/install.md`. Of two paths that are called alike the later
one gets the names of folders above it in front. So names depend on the paths that are given, not
on what else is in them, and a path that is added at the end changes no other name.

What a folder holds beside text is skipped and counted; what is named itself and cannot be read is
an error.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knnlm.disk import checksum_file
from knnlm.errors import KnnlmError, UsageError
from knnlm.progress import counted, log
from knnlm.text import formats, wikitext
from knnlm.text.documents import Document, Split
from knnlm.text.skipped import files_of_folder, without_text


@dataclass(frozen=True)
class Files:
    """The documents of local files.

    Attributes:
        paths: The files.
        names: What their documents are called, where it is not the file name.
        from_folder: Whether the files were found in a folder: one without text is then skipped.
        meta: What is known of all of them, besides path, size and date.
    """

    paths: tuple[Path, ...]
    names: Mapping[Path, str] = field(default_factory=dict, hash=False)
    from_folder: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    noted: set[Path] = field(default_factory=set, compare=False, repr=False)
    """Files whose skipping was said: a text that is read more than once does not repeat it."""

    def describe(self) -> dict[str, Any]:
        """Names, sizes and checksums of the files; folders may move."""
        files = [
            {"name": self.name_of(p), "bytes": p.stat().st_size, "xxh3": checksum_file(p)}
            for p in self.paths
        ]
        described: dict[str, Any] = {"kind": "files", "files": files}
        return {**described, "meta": dict(self.meta)} if self.meta else described

    def __iter__(self) -> Iterator[Document]:
        empty = True
        unread: dict[Path, formats.NoText] = {}
        for path in self.paths:
            try:
                for document in self.read(path):
                    empty = False
                    yield document
            except formats.NoText as error:
                if not self.from_folder:
                    raise
                unread[path] = error
        if empty and unread:
            raise nothing_read(unread)
        self.say_skipped(unread)

    def say_skipped(self, unread: Mapping[Path, formats.NoText]) -> None:
        """Say in one line which files could not be read, without those of earlier lines."""
        new = {path: error for path, error in unread.items() if path not in self.noted}
        if new:
            self.noted.update(new)
            for error in new.values():
                log.debug(f"skipped: {error}")
            listed, remedy = without_text(new.values())
            log.warning(f"note: skipped {listed}: {remedy}")

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
        """What the document of a file is called; bytes that are not UTF-8 are spelled out."""
        name = self.names.get(path, path.name)
        return name.encode(errors="backslashreplace").decode()


def nothing_read(unread: Mapping[Path, formats.NoText]) -> UsageError:
    """The error for files of which none could be read."""
    listed, remedy = without_text(unread.values())
    return UsageError(f"nothing in the text could be read (skipped: {listed}): {remedy}")


def find_files(
    paths: Sequence[str | Path], split: Split, meta: Mapping[str, Any] | None = None
) -> Files:
    """Find the text files that paths mean.

    Args:
        paths: Files and folders. A WikiText folder means the file of `split`; any other folder,
            all files in it and below it that can be read (formats.py), in name order, but no
            hidden ones. Links to folders are not followed.
        split: Which file of a WikiText folder to read.
        meta: What is known of all documents.

    Raises:
        UsageError: A path does not exist, or a folder holds no text.
    """
    check_paths(paths)
    labels = _labels([Path(path) for path in paths])
    names: dict[Path, str] = {}
    files: list[Path] = []
    folders = 0
    for path in map(Path, paths):
        if path.is_file():
            below = [path]
        else:
            wiki = wikitext.wikitext_file(path, split)
            below = files_of_folder(path) if wiki is None else [wiki]
            folders += wiki is None
        files += below
        for file in below:
            name = (labels[path.resolve()] / file.relative_to(path)).as_posix()
            names.setdefault(file, name)
    different = {file.resolve(): file for file in reversed(files)}  # the first name of each stays
    if len(different) < len(files):
        named, meant = counted(len(files), "name"), counted(len(different), "file")
        log.warning(f"note: {named} mean {meant}; each is read once")
    unique = tuple(file for file in files if different.pop(file.resolve(), None))
    names = {file: names[file] for file in unique if names[file] != file.name}
    return Files(unique, names, from_folder=folders > 0, meta=dict(meta or {}))


def check_paths(paths: Sequence[str | Path]) -> None:
    """Raise a UsageError unless every path of a text is a file or a folder."""
    for path in map(Path, paths):
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"there is no file or folder {path}: check the path of the text")


def _labels(paths: Sequence[Path]) -> dict[Path, Path]:
    """What names below each path begin with, by the resolved path: its own name, after those of as
    many folders above it as tell it from earlier ones; nothing for a folder that is alone."""
    given = {path.resolve(): Path(os.path.abspath(path)) for path in reversed(paths)}
    order = dict.fromkeys(path.resolve() for path in paths)
    if len(order) == 1 and paths[0].is_dir():
        return {path: Path() for path in order}
    labels: dict[Path, Path] = {}
    for resolved in order:
        parts = given[resolved].parts[1:]
        ends = (Path(*parts[len(parts) - depth :]) for depth in range(1, len(parts) + 1))
        labels[resolved] = next((end for end in ends if end not in labels.values()), Path(*parts))
    return labels
