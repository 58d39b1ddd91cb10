"""A data set of the hub is read at one commit, from the first entry of a build to its last, and by
whatever is read for its datastore later."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import pytest

from knnlm.api.own_text import own_text
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.datastore.table import CHECKPOINT, MANIFEST
from knnlm.errors import KnnlmError, UsageError
from knnlm.models.load import LanguageModel
from knnlm.text import HubDataset, open_text, text_as_json

from .helpers import sentence
from .test_checkpoint import Groups

OLD, NEW = "a" * 40, "b" * 40
NAME = "owner/name"
load_dataset = datasets.load_dataset


class Hub:
    """A hub with one data set: a folder for each commit, and names of commits."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.commits, self.asked = folder, {"main": OLD, "v1": OLD}, 0
        for seed, commit in enumerate((OLD, NEW)):
            (folder / commit).mkdir()
            for split in ("train", "validation"):
                texts = [f"{split} {sentence(20, 10 * seed + i)}" for i in range(12)]
                rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
                (folder / commit / f"{split}.jsonl").write_text(rows)
        patch.setattr(huggingface_hub.HfApi, "dataset_info", self.dataset_info)
        patch.setattr(datasets, "load_dataset", self.load_dataset)
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / ".cache")

    def dataset_info(self, name: str, *, revision: str | None, timeout: float) -> Any:
        self.asked += 1
        if (commit := self.commits.get(revision or "main")) is None:
            raise OSError("404 Not Found")
        return SimpleNamespace(sha=commit)

    def load_dataset(self, name: str, config: Any, *, revision: str | None, **options: Any) -> Any:
        commit = self.commits.get(revision or "main", revision)
        return load_dataset(str(self.folder / str(commit)), config, **options)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    folder = tmp_path / "hub"
    folder.mkdir()
    return Hub(folder, monkeypatch)


def read(source: Any) -> list[str]:
    return [document.text for document in source]


def test_the_commit_is_recorded_and_stays(hub: Hub) -> None:
    source = HubDataset(NAME).open("train").pinned()
    assert source.describe()["revision"] == OLD
    before = read(source)
    hub.commits["main"] = NEW
    assert read(source) == before
    assert read(HubDataset(NAME).open("train")) != before
    assert read(HubDataset(NAME, revision=OLD).open("train")) == before


def test_a_name_of_a_commit_is_recorded_beside_it(hub: Hub) -> None:
    source = HubDataset(NAME, revision="v1").open("valid").pinned()
    assert (source.revision, source.named) == (OLD, "v1")
    assert source.describe() == {
        "kind": "dataset",
        "name": NAME,
        "config": None,
        "split": "valid",
        "column": "text",
        "revision": OLD,
        "named": "v1",
    }


def test_a_commit_is_not_asked_for(hub: Hub) -> None:
    source = HubDataset(NAME, revision=NEW).open("train")
    assert source.pinned() == source
    assert hub.asked == 0


def test_where_the_hub_does_not_tell_nothing_is_recorded(hub: Hub, tmp_path: Path) -> None:
    for source in (HubDataset(NAME, revision="nope"), HubDataset(str(tmp_path))):
        assert source.open("train").pinned() == source.open("train")


@pytest.mark.parametrize(
    ("asked", "before", "revision"),
    [
        (None, {"revision": OLD}, OLD),
        (None, {}, None),  # of a knnlm that did not record it
        (OLD, {"revision": OLD, "named": "main"}, OLD),
        ("main", {"revision": OLD, "named": "main"}, OLD),
        (None, {"revision": OLD, "named": "v1"}, NEW),
        ("main", {"revision": OLD}, NEW),
        ("v1", {"revision": NEW, "named": "main"}, OLD),
        (None, {"revision": OLD, "name": "owner/other"}, NEW),
        (None, {"revision": OLD, "split": "test"}, NEW),
        (None, {"kind": "files"}, NEW),
    ],
)
def test_the_commit_before_is_read_again_if_the_same_is_asked_for(
    hub: Hub, asked: str | None, before: dict[str, Any], revision: str | None
) -> None:
    hub.commits["main"] = NEW
    source = HubDataset(NAME, revision=asked).open("train")
    described = {**HubDataset(NAME).open("train").describe(), **before}
    assert source.pinned(described).revision == revision


def built(lm: LanguageModel, folder: Path, revision: str | None = None) -> Entries:
    text = HubDataset(NAME, revision=revision)
    source = text.open("train")
    return build_entries(
        lm, source, folder, window=12, stride=6, part_rows=90, text_name=text_as_json(text)
    )


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("revision", [None, "main"])
@pytest.mark.parametrize(("groups", "committed"), [(3, True), (1, False)])
def test_a_build_that_resumes_reads_the_same_commit(
    lm: LanguageModel,
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    revision: str | None,
    groups: int,
    committed: bool,
) -> None:
    whole = built(lm, tmp_path / "whole", revision).fingerprint
    counted = Groups(monkeypatch)
    counted.left = groups
    with pytest.raises(KeyboardInterrupt):
        built(lm, tmp_path / "store", revision)
    counted.left = 10**9
    assert (tmp_path / "store" / MANIFEST).is_file() == committed
    assert committed or (tmp_path / "store" / CHECKPOINT).is_file()
    hub.commits["main"] = NEW
    resumed = built(lm, tmp_path / "store", revision)
    assert resumed.fingerprint == whole
    assert resumed.meta["text"]["revision"] == OLD
    assert resumed.meta["text"].get("named") == revision
    asked = hub.asked
    assert built(lm, tmp_path / "store", revision).fingerprint == whole  # opened, not built
    assert hub.asked == asked


def test_another_revision_is_another_text(lm: LanguageModel, hub: Hub, tmp_path: Path) -> None:
    built(lm, tmp_path / "store", "v1")
    with pytest.raises(KnnlmError, match=r"was made from something else \(other text\)"):
        built(lm, tmp_path / "store", NEW)


def test_other_splits_are_read_at_the_same_commit(
    lm: LanguageModel, hub: Hub, tmp_path: Path
) -> None:
    entries, before = built(lm, tmp_path / "store"), read(HubDataset(NAME).open("valid"))
    hub.commits["main"] = NEW
    assert own_text(entries) == HubDataset(NAME, revision=OLD)
    assert read(open_text(own_text(entries), "valid")) == before


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("owner/name", HubDataset("owner/name")),
        ("owner/name:config", HubDataset("owner/name:config")),
        ("owner/name@v1", HubDataset("owner/name", revision="v1")),
        ("owner/name:config@refs/pr/1", HubDataset("owner/name:config", revision="refs/pr/1")),
    ],
)
def test_the_command_line_names_it_behind_an_at_sign(given: str, wanted: HubDataset) -> None:
    assert HubDataset.from_argument(given) == wanted


def test_a_folder_has_no_revision(tmp_path: Path) -> None:
    folder = tmp_path / "me@home"
    folder.mkdir()
    assert HubDataset.from_argument(str(folder)) == HubDataset(str(folder))
    with pytest.raises(UsageError, match="is a folder, which has no revisions: leave it out"):
        HubDataset(str(folder), revision="main")
    with pytest.raises(UsageError, match="the revision of data set owner/name is empty"):
        HubDataset.from_argument("owner/name@")
