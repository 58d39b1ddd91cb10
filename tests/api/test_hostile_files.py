"""Every file that is read back may have been written by somebody else, or by a bug of ours: with a
seal that fits and any content, it is used or refused in one sentence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knnlm import KNNLM, Datastore
from knnlm.api import describe_datastore, settings_of, verify_datastore
from knnlm.components import (
    component_record,
    describe_component,
    list_components,
    load_component,
    load_stored,
)
from knnlm.components.records import component_file
from knnlm.datastore import Entries, open_entries
from knnlm.disk import checksum_file
from knnlm.evaluation import load_settings
from knnlm.files import read_json, write_json
from knnlm.models.load import LanguageModel
from knnlm.search import open_index
from knnlm.tensors import read_tensors, save_tensors
from tests.conftest import prose
from tests.hostile import ABSURD, mutations, places, sealed_file, survive

pytestmark = pytest.mark.pipeline
Use = Callable[[], None]


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel) -> Path:
    """A datastore with all that can be kept with one."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "train").mkdir()
    for number in range(4):
        (folder / "train" / f"{number}.txt").write_text(prose(number, 10))
    for number, split in enumerate(("valid", "test"), start=7):
        (folder / f"{split}.txt").write_text(prose(number, 12))
    store = Datastore.build(lm, folder / "train", folder / "store")
    store.build_index(factory="IVF4,Flat", nprobe=4, recall=0)
    model = KNNLM(store).tune(folder / "valid.txt", k=8)
    model.evaluate(folder / "test.txt")
    store.distill(kind="clusters", size=4, name="clusters")
    store.distill(kind="head", key="att", epochs=1, name="head")
    store.distill(kind="mlp", epochs=1, size=8, name="mlp")
    store.distill(kind="mixture-of-softmaxes", epochs=1, name="softmaxes")
    store.combine(["knn", "clusters"], name="mixture")
    return store.path


@pytest.fixture
def alone(store: Path) -> Path:
    """Only the entries of the datastore, which are looked at faster."""
    for name in ("cache", "components", "indexes"):
        shutil.rmtree(store / name)
    for name in ("tuned.json", "kept.json"):
        (store / name).unlink()
    return store


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be harmed."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def look(store: Path) -> None:
    """What `info` and `verify` do, and what reads entries."""
    entries = open_entries(store)
    str(described := describe_datastore(entries))
    json.dumps(described.as_json(), allow_nan=False)
    str(verify_datastore(entries))
    assert len(entries.metadata) == len(entries.documents)
    for entry in (0, entries.count - 1):
        assert isinstance(entries.document_of(entry), str)
        assert entries.context(entry, 4).min(initial=0) >= 0
        assert entries.continuation(entry, 4).min(initial=0) >= 0
    assert entries.states(entries.keys).shape[0] == entries.count
    assert entries.dtype


def verified(entries: Entries) -> None:
    assert str(verify_datastore(entries))


def test_a_manifest(alone: Path) -> None:
    fields, write = sealed_file(alone / "manifest.json")
    assert survive(fields, mutations(fields, 1000), write, lambda: look(alone)) > 600


def test_a_manifest_that_was_changed(alone: Path, lm: LanguageModel) -> None:
    """One that says what was added and what was forgotten."""
    new = alone.parent / "new.txt"
    new.write_text(prose(20, 10))
    store = Datastore.open(alone, model=lm)
    store.add(new)
    store.forget(["1.txt"])
    fields, write = sealed_file(alone / "manifest.json")
    summary = fields["summary"]
    said = [("summary", *at) for at in places(summary) if at[:1] in (("forgotten",), ("added",))]
    cases = [(at, new) for at in said for new in ABSURD]
    assert survive(fields, cases, write, lambda: look(alone)) > 300


@pytest.mark.parametrize("name", ["documents.json", "metadata.json"])
def test_a_file_of_a_part(alone: Path, name: str) -> None:
    file, manifest = alone / "parts/000000" / name, read_json(alone / "manifest.json")

    def write(content: Any) -> None:
        file.write_text(json.dumps(content))
        described = {"bytes": file.stat().st_size, "xxh3": checksum_file(file)}
        manifest["parts"][0]["files"][name] = described
        write_json(alone / "manifest.json", manifest)

    value = json.loads(file.read_text())
    cases = mutations(value, 200, sealed=False)
    assert survive(value, cases, write, lambda: look(alone)) > 40


def test_settings(store: Path) -> None:
    fields, write = sealed_file(store / "tuned.json")
    entries = open_entries(store)

    def use() -> None:
        for settings in load_settings(entries):
            assert 0 <= settings.lam <= 1
            assert 0 < settings.tau < float("inf")
            assert f"{settings}; {settings.validation}"
            json.dumps(settings.as_json(), allow_nan=False)
            if settings.calibrated is not None:
                assert 0 <= settings.calibrated.unigram_share <= 1
                assert settings.calibrated.softmax_temperature > 0
                assert settings.calibrated.validation("x")
        settings_of(entries, "knn", {}, k=None, lam=None, tau=0.5)

    assert survive(fields, mutations(fields, 1000), write, use) > 400


def test_an_index(store: Path) -> None:
    (file,) = store.glob("indexes/*/manifest.json")
    fields, write = sealed_file(file)
    entries = open_entries(store)
    query = entries.states([fields["key"]])[:1].astype(np.float32)

    def use() -> None:
        str(describe_datastore(entries))
        index = open_index(entries, file.parent.name)
        assert repr(index)
        assert index.search(query, 3).ids.shape == (1, 3)

    assert survive(fields, mutations(fields, 400), write, use) > 150


@pytest.mark.parametrize("name", ["clusters", "mixture"])
def test_the_record_of_a_component(store: Path, name: str) -> None:
    file = store / "components" / name / "component.json"
    fields, write = sealed_file(file)
    entries = open_entries(store)

    def use() -> None:
        str(describe_datastore(entries))
        describe_component(entries, name)
        component_record(entries, name)
        assert component_file(entries, name).parent == file.parent
        load_stored(entries, name)

    assert survive(fields, mutations(fields, 200), write, use) > 60


@pytest.mark.parametrize("name", ["clusters", "head", "mlp", "softmaxes", "mixture"])
def test_the_note_of_a_component(store: Path, tmp_path: Path, name: str) -> None:
    entries = open_entries(store)
    tensors, note = read_tensors(component_file(entries, name))
    file = tmp_path / "component.safetensors"

    def use() -> None:
        component = load_component(file, entries).component
        width = sum(entries.key(key).type.width for key in component.keys)
        logs = component.logprobs(torch.zeros(1, width))
        assert not torch.isnan(logs).any()
        assert component.tau > 0

    cases = [case for case in mutations(note, 300, sealed=False) if case[0]]
    assert survive(note, cases, lambda changed: save_tensors(file, tensors, changed), use) > 100


def test_all_components_are_tried(whole: Path) -> None:
    assert len(list_components(open_entries(whole))) == 5


def test_what_is_cached(store: Path) -> None:
    (overlap, *_) = store.glob("cache/overlap/*.json")
    (neighbors, *_) = store.glob("cache/neighbors/*/manifest.json")
    (states, *_) = store.glob("cache/states/*/manifest.json")
    entries = open_entries(store)
    for name in ("components", "indexes"):
        shutil.rmtree(store / name)
    write_json(store / "kept.json", {"format": 1, "files": ["tuned.json"]})
    for file in (overlap, neighbors, states, store / "kept.json"):
        fields, write = sealed_file(file)
        cases = mutations(fields, 80)
        assert survive(fields, cases, write, lambda: verified(entries)) > 25
