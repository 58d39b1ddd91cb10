"""A folder divided into datastore, validation and test by the names of its documents."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import KnnlmError, UsageError
from knnlm.text import SPLITS, Folder, Split, open_for_datastore, text_as_json
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
        match=r"falls into 'valid' \(90,5,5 percent\): give it a larger share, or read another",
    ):
        list(Folder(tmp_path).open("valid"))


@pytest.mark.parametrize("split", SPLITS)
def test_a_folder_in_which_nothing_can_be_read_says_so_in_every_split(
    tmp_path: Path, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"{number}.pdf").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(UsageError, match=r"\d+ .pdf whose converter is missing\): run pip install"):
        list(Folder(tmp_path, split=(40, 30, 30)).open(split))
    with pytest.raises(UsageError, match=r"40 .pdf whose converter is missing\): run pip install"):
        open_for_datastore(Folder(tmp_path, split=(40, 30, 30)))


def test_how_many_documents_each_part_has_is_said_first(
    docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="knnlm")
    folder = Folder(docs, split=(60, 20, 20))
    source = open_for_datastore(folder)
    train, valid, test = (len(names(folder, split)) for split in SPLITS)
    line = f"{train} documents for the datastore, {valid} for validation and {test} for test"
    assert line in caplog.messages
    assert {document.name for document in source} == names(folder, "train")


def test_unread_files_are_not_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text("text\n")
        (tmp_path / f"{number}.pdf").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    caplog.set_level("INFO", logger="knnlm")
    source = open_for_datastore(Folder(tmp_path, split=(60, 20, 20)))
    documents = len(list(source))
    assert any(m.startswith(f"{documents} documents for the data") for m in caplog.messages)
    (note,) = [message for message in caplog.messages if message.startswith("note: ")]
    assert note.startswith("note: skipped 60 .pdf whose converter is missing: run pip install")


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ((100, 0, 0), "note: no document is left for validation and test: give them a larger"),
        ((50, 50, 0), "note: no document is left for test: give it a larger share with `split`"),
    ],
)
def test_a_part_without_documents_is_noted_before_the_build(
    docs: Path, split: Any, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    open_for_datastore(Folder(docs, split=split))
    assert sentence in caplog.text


def test_a_datastore_without_documents_is_refused(docs: Path) -> None:
    with pytest.raises(UsageError, match=r"'train' \(0,50,50 percent\): give it a larger share"):
        open_for_datastore(Folder(docs, split=(0, 50, 50)))


def test_a_folder_without_a_split_is_read_whole(docs: Path) -> None:
    folder = Folder(docs, split=None, meta={"author": "x"})
    assert text_as_json(folder) is None
    assert len(names(folder, "train")) == 120
    assert folder.open("train") == folder.open("valid") == open_for_datastore(folder)
    assert {document.meta["author"] for document in folder.open("test")} == {"x"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_utf8_is_in_a_split(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("text\n")
    assert names(Folder(tmp_path, split=(100, 0, 0)), "train") == {"caf\\udce9.txt"}
    assert split_of("lone \ud83d", (100, 0, 0)) == "train"


@pytest.mark.parametrize(
    "split", [(90, 10), (90, 5, 6), (110, -5, -5), (), (float("nan"), 5, 5), (float("inf"), 0, -1)]
)
def test_percents_that_divide_nothing_are_refused(split: Any) -> None:
    with pytest.raises(UsageError, match="does not divide a text in three: give the percents"):
        Folder("docs", split=split)


@pytest.mark.parametrize(("path", "split"), [(3, (90, 5, 5)), ("docs", "90,5,5"), ("docs", 90)])
def test_wrong_types_are_a_sentence(path: Any, split: Any) -> None:
    with pytest.raises(UsageError, match="`(path|split)` is an? "):
        Folder(path, split=split)
