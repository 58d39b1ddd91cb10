"""Hugging Face data sets as a source of documents: a row of the data set is a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from knnlm.argument_types import check_type
from knnlm.errors import KnnlmError, UsageError, first_line
from knnlm.text.documents import Document, Split


@dataclass(frozen=True)
class HubDataset:
    """A Hugging Face data set, by name. Which split is read depends on what it is read for.

    Args:
        name: NAME or NAME:CONFIG, such as "Salesforce/wikitext:wikitext-2-v1".
        column: The column that holds the text.

    Raises:
        UsageError: There is nothing before the colon.

    Example:
        >>> HubDataset("owner/name:config").open("valid").describe()["config"]
        'config'
    """

    name: str
    column: str = "text"

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("column", self.column, str)
        if not self.name.partition(":")[0]:
            raise UsageError(f"'{self.name}' names no data set: write NAME or NAME:CONFIG")

    def open(self, split: Split) -> "HubSplit":
        """One split of the data set. Nothing is downloaded before its documents are read.

        Args:
            split: "train", "valid" or "test".

        Returns:
            The documents of the split, one for each row.
        """
        name, _, config = self.name.partition(":")
        return HubSplit(name, config or None, split, self.column)


@dataclass(frozen=True)
class HubSplit:
    """The documents of one split of a Hugging Face data set, streamed."""

    name: str
    config: str | None
    split: Split
    column: str = "text"

    def describe(self) -> dict[str, Any]:
        """The data set's name, configuration, split and text column."""
        return {
            "kind": "dataset",
            "name": self.name,
            "config": self.config,
            "split": self.split,
            "column": self.column,
        }

    def __iter__(self) -> Iterator[Document]:
        import datasets

        split = "validation" if self.split == "valid" else self.split
        try:
            rows = datasets.load_dataset(self.name, self.config, split=split, streaming=True)
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
