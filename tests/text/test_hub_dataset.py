"""Data sets are streamed with the `datasets` library; a folder of files is a data set too."""

import json
from pathlib import Path

import pytest

from knnlm.errors import KnnlmError, UsageError
from knnlm.text.hub import HubDataset, HubSplit

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
    documents = list(HubDataset(str(folder)).open("train"))
    assert [d.text for d in documents] == ROWS["train"]
    assert [d.name for d in documents] == [f"{folder}/train/{i}" for i in range(3)]


def test_the_validation_split_is_called_valid_as_everywhere_else(folder: Path) -> None:
    assert [d.text for d in HubDataset(str(folder)).open("valid")] == ROWS["validation"]


def test_rows_are_streamed_not_prepared_on_disk(folder: Path, no_cache: Path) -> None:
    assert next(iter(HubDataset(str(folder)).open("train"))).text == ROWS["train"][0]
    assert list(no_cache.rglob("*.arrow")) == []


def test_a_configuration_follows_a_colon(tmp_path: Path) -> None:
    assert HubDataset("owner/name:config-1").open("test") == HubSplit(
        "owner/name", "config-1", "test"
    )
    assert HubDataset("owner/name").open("test") == HubSplit("owner/name", None, "test")


def test_a_configuration_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(
        KnnlmError, match=r"cannot read data set .* \(.*'nope' not found.*\): check the name"
    ):
        list(HubDataset(f"{folder}:nope").open("train"))


def test_a_split_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(KnnlmError, match=r"cannot read data set .*Bad split: test"):
        list(HubDataset(str(folder)).open("test"))


def test_a_missing_column_is_refused_with_those_there_are(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"has no column 'body': choose one of text, label"):
        list(HubDataset(str(folder), column="body").open("train"))


def test_a_column_that_holds_no_text_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"row 0 of data set .* has no text in column 'label'"):
        list(HubDataset(str(folder), column="label").open("train"))


def test_without_a_network_the_error_is_one_sentence() -> None:
    with pytest.raises(
        KnnlmError,
        match=r"cannot read data set nobody/no-such-text \(.+\): check the name and the network",
    ) as e:
        list(HubDataset("nobody/no-such-text").open("train"))
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["", ":config"])
def test_a_data_set_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"'{name}' names no data set: write NAME or NAME:CONFIG"):
        HubDataset(name)


def test_the_description_is_the_one_that_manifests_hold() -> None:
    assert HubDataset("owner/name:config", column="body").open("valid").describe() == {
        "kind": "dataset",
        "name": "owner/name",
        "config": "config",
        "split": "valid",
        "column": "body",
    }


def test_the_description_names_all_that_is_read() -> None:
    different = [
        HubDataset("a").open("train"),
        HubDataset("b").open("train"),
        HubDataset("a:config").open("train"),
        HubDataset("a").open("test"),
        HubDataset("a", column="body").open("train"),
    ]
    descriptions = [d.describe() for d in different]
    assert all(x != y for i, x in enumerate(descriptions) for y in descriptions[:i])
