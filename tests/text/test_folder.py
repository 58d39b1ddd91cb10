"""A folder divided into datastore, validation and test by the names of its documents."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import KnnlmError, UsageError
from knnlm.text import SPLITS, Folder, Split
from knnlm.text.folder import split_of


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for number in range(60):
        file = tmp_path / "docs" / f"chapter{number % 7}" / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"document {number}\n")
    rows = [{"text": f"row {number}\n", "id": f"row-{number}"} for number in range(60)]
    (tmp_path / "docs" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path / "docs"


def names(folder: Folder, split: Split) -> set[str]:
    return {document.name for document in folder.open(split)}


def test_every_document_is_in_exactly_one_split(docs: Path) -> None:
    folder = Folder(docs, split=(60, 20, 20))
    parts = [names(folder, split) for split in SPLITS]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 120
    assert all(len(part) >= 12 for part in parts)


def test_a_document_stays_where_it_is_when_others_are_added(docs: Path) -> None:
    folder = Folder(docs, split=(60, 20, 20))
    before = {split: names(folder, split) for split in SPLITS}
    for number in range(40):
        (docs / f"new{number}.txt").write_text("new\n")
    for split in SPLITS:
        assert before[split] <= names(folder, split)


@given(st.text(min_size=1), st.floats(1, 98), st.floats(0, 1))
def test_a_larger_share_only_takes_in_more(name: str, train: float, share: float) -> None:
    rest = 100 - train
    chosen = split_of(name, (train, rest * share, rest * (1 - share)))
    if chosen == "train":
        assert split_of(name, (train + rest / 2, rest / 4, rest / 4)) == "train"


def test_the_shares_are_about_what_was_asked_for() -> None:
    splits = [split_of(f"{number}.md", (90, 5, 5)) for number in range(20_000)]
    assert splits.count("train") / 20_000 == pytest.approx(0.90, abs=0.01)
    assert splits.count("valid") / 20_000 == pytest.approx(0.05, abs=0.01)


def test_the_description_tells_splits_and_percents_apart(docs: Path) -> None:
    described = [Folder(docs).open(split).describe() for split in SPLITS]
    described.append(Folder(docs, split=(80, 10, 10)).open("train").describe())
    assert len({json.dumps(d, sort_keys=True) for d in described}) == 4


def test_a_split_without_documents_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n")
    with pytest.raises(
        KnnlmError,
        match=r"falls into 'valid' \(90,5,5 percent\): give it",
    ):
        list(Folder(tmp_path).open("valid"))


@pytest.mark.parametrize("split", [(90, 10), (90, 5, 6), (110, -5, -5), ()])
def test_percents_that_divide_nothing_are_refused(split: Any) -> None:
    with pytest.raises(UsageError, match="does not divide a text in three: give the percents"):
        Folder("docs", split=split)


@pytest.mark.parametrize(("path", "split"), [(3, (90, 5, 5)), ("docs", "90,5,5"), ("docs", 90)])
def test_wrong_types_are_a_sentence(path: Any, split: Any) -> None:
    with pytest.raises(UsageError, match="`(path|split)` is an? "):
        Folder(path, split=split)
