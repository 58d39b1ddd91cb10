"""Parts of a text that are texts themselves."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.text.documents import Document, Source
from knnlm.text.local_files import Files
from knnlm.text.portions import Excerpts, FirstDocuments, HeldOut


@dataclass(frozen=True)
class Given:
    """Documents made on the spot."""

    texts: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        return {"kind": "given", "texts": list(self.texts)}

    def __iter__(self) -> Iterator[Document]:
        return (Document(str(i), text, line_ends=True) for i, text in enumerate(self.texts))


LONG = "".join(f"line {i} of the text\n" for i in range(200))
TEXTS = st.lists(st.text(alphabet="ab \t\n", max_size=200), max_size=5).map(tuple)


@given(TEXTS)
def test_head_and_tail_of_every_document_make_it_whole_again(texts: tuple[str, ...]) -> None:
    head = {d.name: d.text for d in HeldOut(Given(texts), "train")}
    tail = {d.name: d.text for d in HeldOut(Given(texts), "valid")}
    for i, text in enumerate(texts):
        whole = head.get(str(i), "") + tail.get(str(i), "")
        assert whole == text or (
            str(i) not in head.keys() & tail.keys() and whole.split() == text.split()
        )


@given(TEXTS)
def test_no_word_is_cut_in_two_unless_it_is_most_of_the_document(texts: tuple[str, ...]) -> None:
    for text in texts:
        parts = [d.text for part in ("train", "valid") for d in HeldOut(Given((text,)), part)]
        if any(c.isspace() for c in text[: int(0.95 * len(text))]):
            assert sum(len(p.split()) for p in parts) == len(text.split())


def test_the_tail_is_the_last_twentieth() -> None:
    (head,), (tail,) = HeldOut(Given((LONG,)), "train"), HeldOut(Given((LONG,)), "valid")
    assert head.text + tail.text == LONG
    assert head.text.endswith("\n")
    assert 0.05 * len(LONG) <= len(tail.text) < 0.05 * len(LONG) + 25
    assert head.line_ends
    assert tail.line_ends


def test_a_heading_above_one_long_line_does_not_make_the_line_held_out() -> None:
    text = "Heading\n" + "word " * 1000
    (tail,) = HeldOut(Given((text,)), "valid")
    assert len(tail.text) < 0.06 * len(text)
    assert tail.text.startswith("word ")


def test_blank_parts_are_left_out() -> None:
    assert [d.name for d in HeldOut(Given(("", " \n ", LONG)), "train")] == ["2"]


@given(TEXTS, st.integers(1, 100))
def test_excerpts_are_prefixes_no_longer_than_asked(
    texts: tuple[str, ...], characters: int
) -> None:
    excerpts = list(Excerpts(Given(texts), characters))
    for document, text in zip(excerpts, texts, strict=True):
        assert text.startswith(document.text)
        assert len(document.text) <= characters
        assert len(document.text) > 0 or not text


@pytest.mark.parametrize("characters", [20, 100, 1234])
def test_excerpts_end_at_the_last_line_end_that_fits(characters: int) -> None:
    (excerpt,) = Excerpts(Given((LONG,)), characters)
    assert excerpt.text.endswith("\n")
    next_line = LONG[len(excerpt.text) :].index("\n") + 1
    assert len(excerpt.text) + next_line > characters


def test_an_excerpt_larger_than_the_document_is_the_document() -> None:
    assert [d.text for d in Excerpts(Given((LONG, "no line end")), 1 << 30)] == [
        LONG,
        "no line end",
    ]


def test_descriptions_tell_portions_and_texts_apart() -> None:
    one, other = Given(("a",)), Given(("b",))
    portions: list[Source] = [
        one,
        HeldOut(one, "train"),
        HeldOut(one, "valid"),
        Excerpts(one, 5),
        Excerpts(one, 6),
        Excerpts(other, 5),
    ]
    descriptions = [p.describe() for p in portions]
    assert all(x != y for i, x in enumerate(descriptions) for y in descriptions[:i])


def test_the_first_documents_are_described_as_a_part_of_the_whole(tmp_path: Path) -> None:
    paths = []
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"document {name}\n")
        paths.append(tmp_path / f"{name}.txt")
    whole = Files(tuple(paths))
    part = FirstDocuments(whole, 2)
    assert [d.name for d in part] == ["a.txt", "b.txt"]
    assert part.describe() != whole.describe()
    assert part.describe()["files"] == whole.describe()["files"]
