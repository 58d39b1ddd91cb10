"""What a document and a source of documents are, and how words are counted."""

from collections.abc import Iterator
from typing import Any

from knnlm.text.documents import Document, Source, count_words


def test_words_are_runs_without_white_space_and_line_ends_count_where_told() -> None:
    text = " one two\n\n three\t(four)\n"
    assert count_words(text, line_ends=False) == 4
    assert count_words(text, line_ends=True) == 7


def test_a_source_is_anything_that_describes_itself_and_yields_documents() -> None:
    class OneDocument:
        def describe(self) -> dict[str, Any]:
            return {"kind": "one"}

        def __iter__(self) -> Iterator[Document]:
            yield Document("only", "text")

    assert isinstance(OneDocument(), Source)
    assert not isinstance("a path", Source)
    assert not isinstance([Document("only", "text")], Source)
