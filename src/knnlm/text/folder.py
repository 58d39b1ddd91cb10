"""A folder is enough: its documents are divided into datastore, validation and test.

    name of a document → XXH3-64 → a number from 0 to 1 → train, valid or test

The number depends on the name alone, so a document stays where it is when others are added.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from knnlm.argument_types import check_type
from knnlm.errors import KnnlmError, UsageError
from knnlm.text import formats
from knnlm.text.documents import SPLITS, Document, Split
from knnlm.text.local_files import Files, find_files

Percents = tuple[float, float, float]
DEFAULT_SPLIT: Percents = (90, 5, 5)


@dataclass(frozen=True)
class Folder:
    """Files and folders whose documents are divided by a hash of their names.

    Args:
        path: A folder, or several paths.
        split: Percent of the documents for datastore, validation and test.
        meta: What is known of all of them, kept with each document, as in {"author": "x"}.

    Raises:
        UsageError: The percents do not sum to 100.

    Example:
        >>> Folder("docs/", split=(80, 10, 10)).split
        (80, 10, 10)
    """

    path: str | Path | Sequence[str | Path]
    split: Sequence[float] = DEFAULT_SPLIT
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_type("path", self.path, str | Path | Sequence[str | Path])
        check_type("split", self.split, Sequence[float])
        if len(self.split) != 3 or min(self.split) < 0 or abs(sum(self.split) - 100) > 1e-9:
            raise UsageError(
                f"split {','.join(f'{p:g}' for p in self.split)} does not divide a text in three: "
                "give the percents for datastore, validation and test, as in 90,5,5"
            )

    def open(self, split: Split) -> "FolderSplit":
        """One of the three parts.

        Args:
            split: "train", "valid" or "test".

        Returns:
            Its documents. Files are looked for now, and read when documents are asked for.
        """
        paths = [self.path] if isinstance(self.path, str | Path) else self.path
        train, valid, test = self.split
        return FolderSplit(find_files(paths, split, self.meta), (train, valid, test), split)


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
            raise KnnlmError(
                f"no document of the folder falls into '{self.split}' "
                f"({','.join(f'{p:g}' for p in self.percents)} percent): give it a larger share "
                "with `split`, or a text of its own"
            )

    def _documents(self) -> Iterator[Document]:
        """All documents; files whose one document is in another split are not read."""
        chosen = tuple(
            path
            for path in self.files.paths
            if formats.holds_many(path)
            or split_of(self.files.name_of(path), self.percents) == self.split
        )
        return iter(dataclasses.replace(self.files, paths=chosen))


def split_of(name: str, percents: Percents) -> Split:
    """Which split a document belongs to.

    Example:
        >>> split_of("guide/install.md", (90, 5, 5))
        'train'
    """
    percent = xxhash.xxh3_64_intdigest(name.encode()) / 2**64 * 100
    train, valid, _ = percents
    return SPLITS[0 if percent < train else 1 if percent < train + valid else 2]
