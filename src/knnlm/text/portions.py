"""Parts of a text that are texts themselves: its first documents, and the beginning or the end of
each document.

Cuts fall on line ends, or on white space where lines are long, so words stay whole.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from knnlm.text.documents import Document, Source

HELD_OUT = 0.05


@dataclass(frozen=True)
class HeldOut:
    """The first 95% ("train") or the last 5% ("valid") of every document.

    For texts without a validation set of their own.

    Args:
        source: The text to divide.
        part: Which of the two parts this is.
    """

    source: Source
    part: Literal["train", "valid"]

    def describe(self) -> dict[str, Any]:
        """The text and which part of it."""
        return {**self.source.describe(), "part": self.part, "held_out": HELD_OUT}

    def __iter__(self) -> Iterator[Document]:
        for document in self.source:
            cut = _cut(document.text, int(len(document.text) * (1 - HELD_OUT)))
            text = document.text[:cut] if self.part == "train" else document.text[cut:]
            if text.strip():
                yield document._replace(text=text)


@dataclass(frozen=True)
class FirstDocuments:
    """The first documents of a text.

    Args:
        source: The text.
        documents: How many of its documents.
    """

    source: Source
    documents: int

    def describe(self) -> dict[str, Any]:
        """The text and how many documents of it."""
        return {**self.source.describe(), "documents": self.documents}

    def __iter__(self) -> Iterator[Document]:
        return itertools.islice(iter(self.source), self.documents)


@dataclass(frozen=True)
class WithoutDocuments:
    """A text without some of its documents.

    Args:
        source: The text.
        names: Names of the documents to leave out.
    """

    source: Source
    names: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """The text and what is left out of it."""
        return {**self.source.describe(), "without": list(self.names)}

    def __iter__(self) -> Iterator[Document]:
        return (document for document in self.source if document.name not in self.names)


@dataclass(frozen=True)
class Excerpts:
    """The beginning of every document.

    Args:
        source: The text.
        characters: How much of each document, at most.
    """

    source: Source
    characters: int

    def describe(self) -> dict[str, Any]:
        """The text and how much of each document."""
        return {**self.source.describe(), "excerpt": self.characters}

    def __iter__(self) -> Iterator[Document]:
        for document in self.source:
            yield document._replace(text=document.text[: _cut(document.text, self.characters)])


def _cut(text: str, near: int) -> int:
    """Where to cut at or before `near`: after the last line end in the second half of what comes
    before it, else after the last white space, else at `near` itself."""
    if near >= len(text):
        return len(text)
    return (
        text.rfind("\n", near // 2, near) + 1
        or max(text.rfind(blank, 0, near) for blank in " \t\n") + 1
        or near
    )
