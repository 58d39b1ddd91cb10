"""Data sets are streamed with the `datasets` library; a folder of files is a data set too."""

import json
from pathlib import Path

import pytest

from knnlm.errors import KnnlmError, UsageError
from knnlm.text.documents import HubDataset, hub_dataset

ROWS = {"train": ["first text\n", "", "third"], "validation": ["held out"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, texts in ROWS.items():
        rows = [json.dumps({"text": text, "label": i}) for i, text in enumerate(texts)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import datasets

    cache = tmp_path / ".cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    return cache


def test_each_row_is_a_document(folder: Path) -> None:
    found = list(hub_dataset(str(folder), "train"))
    assert [d.text for d in found] == ROWS["train"]
    assert [d.name for d in found] == [f"{folder}/train/{i}" for i in range(3)]


def test_the_validation_split_is_called_valid_as_everywhere_else(folder: Path) -> None:
    assert [d.text for d in hub_dataset(str(folder), "valid")] == ROWS["validation"]


def test_rows_are_streamed_not_prepared_on_disk(folder: Path, no_cache: Path) -> None:
    assert next(iter(hub_dataset(str(folder), "train"))).text == ROWS["train"][0]
    assert list(no_cache.rglob("*.arrow")) == []


def test_a_configuration_follows_a_colon(tmp_path: Path) -> None:
    assert hub_dataset("owner/name:config-1", "test") == HubDataset(
        "owner/name", "config-1", "test"
    )
    assert hub_dataset("owner/name", "test") == HubDataset("owner/name", None, "test")


def test_a_configuration_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(
        KnnlmError, match=r"cannot read data set .* \(.*'nope' not found.*\): check the name"
    ):
        list(hub_dataset(f"{folder}:nope", "train"))


def test_a_split_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(KnnlmError, match=r"cannot read data set .*Bad split: test"):
        list(hub_dataset(str(folder), "test"))


def test_a_missing_column_is_refused_with_those_there_are(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"has no column 'body': choose one of text, label"):
        list(hub_dataset(str(folder), "train", "body"))


def test_a_column_that_holds_no_text_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"row 0 of data set .* has no text in column 'label'"):
        list(hub_dataset(str(folder), "train", "label"))


def test_without_a_network_the_error_is_one_sentence() -> None:
    with pytest.raises(
        KnnlmError,
        match=r"cannot read data set nobody/no-such-text \(.+\): check the name and the network",
    ) as e:
        list(hub_dataset("nobody/no-such-text", "train"))
    assert "\n" not in str(e.value)


def test_a_specification_without_a_name_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"':config' names no data set: write --dataset NAME or NAME:CONFIG"
    ):
        hub_dataset(":config", "train")


def test_the_description_names_all_that_is_read() -> None:
    different = [
        hub_dataset("a", "train"),
        hub_dataset("b", "train"),
        hub_dataset("a:config", "train"),
        hub_dataset("a", "test"),
        hub_dataset("a", "train", "body"),
    ]
    descriptions = [d.describe() for d in different]
    assert all(x != y for i, x in enumerate(descriptions) for y in descriptions[:i])
