"""The texts of an experiment: what is stored, tuned on and reported on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from knnlm.text import (
    Document,
    Excerpts,
    FirstDocuments,
    HubSplit,
    PythonDocs,
    Source,
    Split,
    open_text,
    split_articles,
)

Corpus = Literal["embedded", "wikitext-2", "wikitext-103"]


class Texts(NamedTuple):
    """What is trained on and stored, what is tuned on, and what is reported on; `stop` is the
    validation text that ends the training of LMs."""

    train: Source
    valid: Source
    test: Source
    stop: Source


class Sizes(NamedTuple):
    """How many tokens are predicted, and so how many entries there are, in each text."""

    train: int
    valid: int
    test: int


@dataclass(frozen=True, kw_only=True)
class Portions:
    """How much of each text is used; None is all of it."""

    documents: int | None = None
    """Training documents, from the first one on."""
    train_characters: int | None = None
    """Characters of each training document, from its beginning on; and so below."""
    valid_characters: int | None = None
    test_characters: int | None = None


@dataclass(frozen=True)
class HubArticles:
    """WikiText from the Hugging Face hub, which has a line in each row, joined into articles."""

    dataset: HubSplit

    def describe(self) -> dict[str, Any]:
        """The data set, and that its lines are joined."""
        return {**self.dataset.describe(), "articles": True}

    def __iter__(self) -> Iterator[Document]:
        lines = (document.text.rstrip("\n") + "\n" for document in self.dataset)
        return split_articles(self.dataset.name, lines)


def open_texts(corpus: Corpus, portions: Portions, data: Path | None = None) -> Texts:
    """The portions of a corpus.

    Args:
        corpus: The text that every Python installation has, or a WikiText.
        portions: How much of each text is used.
        data: A folder with `wiki.train.tokens` and its like; None reads WikiText from the hub.
    """

    def whole(split: Split) -> Source:
        if corpus == "embedded":
            return open_text(PythonDocs(), split)
        if data is not None:
            return open_text(data, split)
        return HubArticles(HubSplit("Salesforce/wikitext", f"{corpus}-v1", split))

    train: Source = whole("train")
    if portions.documents is not None:
        train = FirstDocuments(train, portions.documents)
    valid = _beginnings(whole("valid"), portions.valid_characters)
    return Texts(
        _beginnings(train, portions.train_characters),
        valid,
        _beginnings(whole("test"), portions.test_characters),
        valid if corpus == "embedded" else whole("valid"),
    )


def _beginnings(text: Source, characters: int | None) -> Source:
    return text if characters is None else Excerpts(text, characters)
