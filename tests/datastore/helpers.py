"""Texts made on the spot, and folders compared byte by byte."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from knnlm.datastore.table import MANIFEST
from knnlm.files import read_json
from knnlm.text.documents import Document

WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "grey",
    "mat",
    "and",
    "looked",
    "at",
    "Müller",
    "while",
    "it",
    "rained",
)


class Texts:
    """A source of given documents that says it is `label`, whatever it yields."""

    def __init__(self, documents: Sequence[Document], label: str = "Bücherei") -> None:
        self.documents, self.label = list(documents), label

    def describe(self) -> dict[str, Any]:
        return {"kind": "made", "label": self.label}

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)


def sentence(words: int, seed: int) -> str:
    """So many words, always the same ones for a seed."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def texts(*words: int) -> Texts:
    """One document for each count of words."""
    return Texts([Document(f"n° {i}", sentence(count, seed=i)) for i, count in enumerate(words)])


def library() -> Texts:
    """A dozen documents of different lengths, one empty, one of a word."""
    return texts(9, 0, 14, 1, 22, 7, 12, 3, 30, 2, 16, 11)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but its lock."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def committed(folder: Path) -> int:
    """The rows that the manifest on disk names."""
    return int(read_json(folder / MANIFEST)["rows"]) if (folder / MANIFEST).exists() else 0
