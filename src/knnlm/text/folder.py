"""A folder is enough: its documents are divided into datastore, validation and test.

    name of a document → XXH3-64 → a number from 0 to 1 → train, valid or test

The number depends on the name alone, so a document stays where it is when others are added.
Before a datastore is built it is said how many documents each part has (`open_for_datastore` in
naming.py).
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from knnlm.argument_types import check_type
from knnlm.errors import UsageError
from knnlm.progress import counted, log
from knnlm.text import formats
from knnlm.text.documents import SPLITS, Document, Split
from knnlm.text.local_files import Files, find_files, nothing_read

Percents = tuple[float, float, float]
DEFAULT_SPLIT: Percents = (90, 5, 5)


class EmptySplit(UsageError):
    """No document falls into a part of a folder."""

    def __init__(self, split: Split, percents: Percents, advice: str) -> None:
        self.split, self.percents = split, percents
        super().__init__(
            f"no document of the folder falls into '{split}' ({_listed(percents)} percent): "
            f"{advice}"
        )


@dataclass(frozen=True)
class Folder:
    """Files and folders whose documents are divided by a hash of their names.

    Args:
        path: A folder, or several paths.
        split: Percent of the documents for datastore, validation and test; with None they are not
            divided.
        meta: What is known of all of them, kept with each document, as in {"author": "x"}.

    Raises:
        UsageError: The percents do not sum to 100.

    Example:
        >>> Folder("docs/", split=(80, 10, 10)).split
        (80, 10, 10)
    """

    path: str | Path | Sequence[str | Path]
    split: Sequence[float] | None = DEFAULT_SPLIT
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_type("path", self.path, str | Path | Sequence[str | Path])
        check_type("split", self.split, Sequence[float] | None)
        if self.split is not None and not _divides(self.split):
            raise UsageError(
                f"split '{_listed(self.split)}' does not divide a text in three: give the percents "
                "for datastore, validation and test, as in 90,5,5"
            )

    def open(self, split: Split) -> "FolderSplit | Files":
        """One of the three parts; all of it where it is not divided.

        Args:
            split: "train", "valid" or "test".

        Returns:
            Its documents. Files are looked for now, and read when documents are asked for.
        """
        paths = [self.path] if isinstance(self.path, str | Path) else self.path
        files = find_files(paths, split, self.meta)
        if self.split is None:
            return files
        train, valid, test = self.split
        return FolderSplit(files, (train, valid, test), split)


@dataclass(frozen=True)
class FolderSplit:
    """The documents of one split of a folder."""

    files: Files
    percents: Percents
    split: Split

    def describe(self) -> dict[str, Any]:
        """The files, the percents and which part this is."""
        return {**self.files.describe(), "percents": list(self.percents), "split": self.split}

    def __iter__(self) -> Iterator[Document]:
        empty = True
        for document in self._documents():
            if split_of(document.name, self.percents) == self.split:
                empty = False
                yield document
        if empty:
            advice = "give it a larger share, or read another text"
            raise EmptySplit(self.split, self.percents, advice)

    def say_parts(self) -> None:
        """Say how many documents each part has, and which part has none.

        Raises:
            UsageError: Nothing could be read, or the datastore's part has no document.
        """
        counts = self._count_documents()
        train, valid, test = (counts[split] for split in SPLITS)
        if not train:
            advice = "give it a larger share with `split`"
            raise EmptySplit("train", self.percents, advice)
        log.info(
            f"{counted(train, 'document')} for the datastore, {valid:,} for validation and "
            f"{test:,} for test"
        )
        empty = [name for name, count in (("validation", valid), ("test", test)) if not count]
        if empty:
            log.warning(
                f"note: no document is left for {' and '.join(empty)}: give "
                f"{'it' if len(empty) == 1 else 'them'} a larger share with `split`, or use "
                "another text for that"
            )

    def _count_documents(self) -> dict[Split, int]:
        """How many documents each part has.

        HTML and PDF of the datastore's part are not converted for that, which takes long: those
        that turn out to have no text are counted too.
        """
        counts = dict.fromkeys(SPLITS, 0)
        unread: dict[Path, formats.NoText] = {}
        for path in self.files.paths:
            split = split_of(self.files.name_of(path), self.percents)
            if not (formats.holds_many(path) or _is_read_to_count(path, split)):
                counts[split] += 1
                continue
            try:
                for document in self.files.read(path):
                    if not document.continues:
                        counts[split_of(document.name, self.percents)] += 1
            except formats.NoText as error:
                if not self.files.from_folder:
                    raise
                unread[path] = error
        if unread and not any(counts.values()):
            raise nothing_read(unread)
        self.files.say_skipped(unread)
        return counts

    def _documents(self) -> Iterator[Document]:
        """All documents; files whose one document is in another split are not read."""
        chosen = tuple(
            path
            for path in self.files.paths
            if formats.holds_many(path)
            or split_of(self.files.name_of(path), self.percents) == self.split
        )
        return iter(dataclasses.replace(self.files, paths=chosen))


def _is_read_to_count(path: Path, split: Split) -> bool:
    """Whether a file must be converted before it counts as a document."""
    if split == "train":
        return formats.needs_missing_converter(path)
    return formats.is_converted(path)


def _divides(percents: Sequence[float]) -> bool:
    """Whether percents divide a text in three."""
    possible = len(percents) == 3 and all(math.isfinite(p) and p >= 0 for p in percents)
    return possible and abs(sum(percents) - 100) <= 1e-9


def _listed(percents: Sequence[float]) -> str:
    return ",".join(f"{p:g}" for p in percents)


def split_of(name: str, percents: Percents) -> Split:
    """Which split a document belongs to.

    Example:
        >>> split_of("guide/install.md", (90, 5, 5))
        'train'
    """
    percent = xxhash.xxh3_64_intdigest(name.encode(errors="backslashreplace")) / 2**64 * 100
    train, valid, _ = percents
    return SPLITS[0 if percent < train else 1 if percent < train + valid else 2]
