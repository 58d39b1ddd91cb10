"""The text that every Python installation carries, split so that nothing is on two sides."""

import re
import subprocess
import sys

import pytest

from knnlm.errors import KnnlmError
from knnlm.text import python_docs
from knnlm.text.documents import SPLITS, Document
from knnlm.text.python_docs import PythonDocs, PythonDocsSplit, split_of

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Document]]:
    return {split: list(PythonDocs().open(split)) for split in SPLITS}


def test_every_split_has_text_and_all_of_it_is_more_than_a_megabyte(
    parts: dict[str, list[Document]],
) -> None:
    sizes = {split: sum(len(d.text) for d in documents) for split, documents in parts.items()}
    assert min(sizes.values()) > 30_000
    assert sum(sizes.values()) > 1_000_000
    assert sizes["train"] > 4 * (sizes["valid"] + sizes["test"])


def test_no_document_is_twice_in_it(parts: dict[str, list[Document]]) -> None:
    names = [d.name for documents in parts.values() for d in documents]
    assert len(names) == len(set(names))
    assert all(d.text.strip() for documents in parts.values() for d in documents)


def test_no_top_level_module_is_in_two_splits(parts: dict[str, list[Document]]) -> None:
    modules = {
        split: {d.name.split(".")[0] for d in documents} for split, documents in parts.items()
    }
    assert modules["train"].isdisjoint(modules["valid"] | modules["test"])
    assert modules["valid"].isdisjoint(modules["test"])


@pytest.mark.parametrize("module", ["decimal", "io", "datetime", "abc", "collections", "http"])
def test_a_pure_python_twin_goes_with_its_module(module: str) -> None:
    for twin in (f"_py{module}", f"_py_{module}", f"_{module}", f"{module}.sub.module"):
        assert split_of(twin) == split_of(module)


def test_hardly_a_line_of_validation_or_test_is_in_train(parts: dict[str, list[Document]]) -> None:
    def lines(document: Document) -> list[str]:
        return [line.strip() for line in document.text.splitlines() if len(line.split()) > 5]

    seen = {line for d in parts["train"] for line in lines(d)}
    for split in ("valid", "test"):
        held_out = [line for d in parts[split] for line in lines(d)]
        assert sum(line in seen for line in held_out) < 0.04 * len(held_out)


def test_a_module_is_its_docstrings_in_the_order_of_the_source(
    parts: dict[str, list[Document]],
) -> None:
    text = {d.name: d.text for documents in parts.values() for d in documents}["bisect"]
    wanted = [
        "Bisection algorithms.",
        "Insert item x in list a, and keep it sorted",
        "Return the index where to insert",
    ]
    offsets = [text.index(sentence) for sentence in wanted]
    assert offsets == sorted(offsets)
    assert not re.search(r"^(def|import|class) ", text, re.MULTILINE)


def test_the_language_reference_is_part_of_it(parts: dict[str, list[Document]]) -> None:
    names = {d.name for documents in parts.values() for d in documents}
    assert {"topic.if", "topic.while", "topic.lambda"} <= names


def test_the_description_tells_the_splits_apart_and_is_the_same_in_another_process() -> None:
    here = [PythonDocsSplit(split).describe() for split in SPLITS]
    assert len({d["text"] for d in here}) == 3
    program = "from knnlm.text import PythonDocsSplit; print(PythonDocsSplit('test').describe())"
    there = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert there.strip() == str(PythonDocsSplit("test").describe())


def test_an_installation_without_sources_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_docs, "_documents", lambda: ())
    with pytest.raises(
        KnnlmError, match=r"carries no standard-library sources to read: give another text"
    ):
        list(PythonDocs().open("train"))
