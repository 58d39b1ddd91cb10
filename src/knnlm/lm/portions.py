"""Parts of a text that are texts themselves: a held-out tail of each document, or an excerpt of each.

Cuts fall on line ends, so words stay whole. Knows nothing of where the documents come from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from knnlm.lm.documents import Document, Source

HELD_OUT = 0.05


@dataclass(frozen=True)
class HeldOut:
    """The first 95% ("train") or the last 5% ("valid") of every document, for texts that come without a validation set."""

    source: Source
    part: Literal["train", "valid"]

    def describe(self) -> dict[str, Any]:
        """The text and which part of it."""
        return {**self.source.describe(), "part": self.part, "held_out": HELD_OUT}

    def __iter__(self) -> Iterator[Document]:
        for document in self.source:
            cut = _line_end(document.text, int(len(document.text) * (1 - HELD_OUT)))
            text = document.text[:cut] if self.part == "train" else document.text[cut:]
            if text.strip():
                yield document._replace(text=text)


@dataclass(frozen=True)
class Excerpts:
    """The beginning of every document, about `characters` long."""

    source: Source
    characters: int

    def describe(self) -> dict[str, Any]:
        """The text and how much of each document."""
        return {**self.source.describe(), "excerpt": self.characters}

    def __iter__(self) -> Iterator[Document]:
        for document in self.source:
            yield document._replace(text=document.text[: _line_end(document.text, self.characters)])


def _line_end(text: str, near: int) -> int:
    """The place after the last line end at or before `near`; `near` itself if there is none."""
    if near >= len(text):
        return len(text)
    return text.rfind("\n", 0, near) + 1 or near
