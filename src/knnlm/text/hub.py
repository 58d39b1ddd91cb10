"""Hugging Face data sets as a source of documents: a row of the data set is a document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knnlm.argument_types import check_type
from knnlm.errors import KnnlmError, UsageError, first_line
from knnlm.progress import log
from knnlm.text.documents import Document, Split

_COMMIT = re.compile("[0-9a-f]{40}")
_PATIENCE = 10.0


@dataclass(frozen=True)
class HubDataset:
    """A Hugging Face data set, by name. Which split is read depends on what it is read for.

    Args:
        name: NAME or NAME:CONFIG, such as "Salesforce/wikitext:wikitext-2-v1".
        column: The column that holds the text.
        revision: A commit, branch or tag of it; by default the present one. What is built from it
            stays at the commit that it was begun with.

    Raises:
        UsageError: There is nothing before the colon, or a folder is given a revision.

    Example:
        >>> HubDataset("owner/name:config").open("valid").describe()["config"]
        'config'
    """

    name: str
    column: str = "text"
    revision: str | None = None

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("column", self.column, str)
        check_type("revision", self.revision, str | None)
        if not self.name.partition(":")[0]:
            raise UsageError(f"'{self.name}' names no data set: write NAME or NAME:CONFIG")
        if self.revision == "":
            raise UsageError(f"the revision of data set {self.name} is empty: leave it out")
        if self.revision is not None and Path(self.name).exists():
            raise UsageError(f"{self.name} is a folder, which has no revisions: leave it out")

    @classmethod
    def from_argument(cls, given: str) -> "HubDataset":
        """A data set as the command line names it.

        Args:
            given: NAME, NAME:CONFIG, or either with @REVISION after it; or a folder.

        Returns:
            The data set.
        """
        name, at, revision = given.rpartition("@")
        if not at or Path(given.partition(":")[0]).exists():
            return cls(given)
        return cls(name, revision=revision)

    def open(self, split: Split) -> "HubSplit":
        """One split of the data set. Nothing is downloaded before its documents are read.

        Args:
            split: "train", "valid" or "test".

        Returns:
            The documents of the split, one for each row.
        """
        name, _, config = self.name.partition(":")
        return HubSplit(name, config or None, split, self.column, self.revision)


@dataclass(frozen=True)
class HubSplit:
    """The documents of one split of a Hugging Face data set, streamed.

    Attributes:
        revision: The commit that is read, or else a name of it; None: the present one.
        named: What the commit was called when it was looked up, if that was asked for.
    """

    name: str
    config: str | None
    split: Split
    column: str = "text"
    revision: str | None = None
    named: str | None = None

    def describe(self) -> dict[str, Any]:
        """The data set's name, configuration, split and text column, and its revision if that is
        fixed."""
        fixed = {"revision": self.revision, "named": self.named}
        return {**self._data_set(), **{n: v for n, v in fixed.items() if v is not None}}

    def _data_set(self) -> dict[str, Any]:
        return {
            "kind": "dataset",
            "name": self.name,
            "config": self.config,
            "split": self.split,
            "column": self.column,
        }

    def pinned(self, before: Mapping[str, Any] | None = None) -> "HubSplit":
        """The same at a commit, whatever the hub has later.

        Args:
            before: The description of what was begun with; that commit is read again, if the same
                was asked for.

        Returns:
            The split at that commit, or at the one that the hub names now; the same as it is where
            the hub names none, as for a folder.
        """
        if before is not None and self._is_asked_again(before):
            return replace(self, revision=before.get("revision"), named=before.get("named"))
        commit = _commit(self.name, self.revision)
        if commit is None or commit == self.revision:
            return self
        return replace(self, revision=commit, named=self.revision)

    def _is_asked_again(self, before: Mapping[str, Any]) -> bool:
        """Whether a description is of this data set, asked for by the same name or by its
        commit."""
        same = all(before.get(name) == value for name, value in self._data_set().items())
        if self.revision is None:
            return same and before.get("named") is None
        return same and self.revision in (before.get("named"), before.get("revision"))

    def __iter__(self) -> Iterator[Document]:
        import datasets

        split = "validation" if self.split == "valid" else self.split
        try:
            rows = datasets.load_dataset(
                self.name, self.config, split=split, streaming=True, revision=self.revision
            )
            for i, row in enumerate(rows):
                yield Document(f"{self.name}/{split}/{i}", self._text_of(i, row))
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise KnnlmError(
                f"cannot read data set {self.name} ({first_line(error)}): check the name and the "
                "network, or give a local folder"
            ) from error

    def _text_of(self, number: int, row: dict[str, Any]) -> str:
        if self.column not in row:
            raise UsageError(
                f"data set {self.name} has no column '{self.column}': choose one of "
                f"{', '.join(row)}"
            )
        text = row[self.column]
        if not isinstance(text, str):
            raise UsageError(
                f"row {number} of data set {self.name} has no text in column '{self.column}'"
            )
        return text


def _commit(name: str, revision: str | None) -> str | None:
    """The commit that a revision of a data set is now; None where the hub does not tell."""
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    if Path(name).exists():
        return None
    import huggingface_hub

    try:
        about = huggingface_hub.HfApi().dataset_info(name, revision=revision, timeout=_PATIENCE)
    except Exception as error:  # of network libraries; what is wrong is told when rows are read
        log.debug(f"the hub does not say which revision of {name} is read ({first_line(error)})")
        return None
    return about.sha
