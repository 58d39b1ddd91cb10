"""Components kept with a datastore: replaced in one step, refused when they are not the same."""

import logging
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import knnlm.components.stored as stored
from knnlm.components import KNN, Component, Mixture
from knnlm.components.records import (
    KNN_NAME,
    check_component_name,
    component_checksum,
    component_folder,
    component_record,
    list_components,
)
from knnlm.components.stored import load_stored, open_component, publish_component
from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.files import read_json, write_json
from knnlm.progress import log
from knnlm.search.retrieval import Retrieval
from tests.components.examples import random_head

ABOUT = {"command": "knnlm distill store --name small", "steps": 3}


@pytest.fixture
def own(store: Entries, tmp_path: Path) -> Entries:
    """A copy for every test: components are written into it."""
    shutil.copytree(store.path, tmp_path / "store")
    return open_entries(tmp_path / "store")


def head_of(store: Entries, seed: int) -> Component:
    return random_head(store.vocab_size, store.key("att").type.width, "l2", 1.5, seed)


def logs_of(component: Component, store: Entries) -> np.ndarray:
    states = torch.from_numpy(store.states(component.keys)[:5].astype(np.float32))
    return component.logprobs(states).numpy()


def change_record(store: Entries, name: str, **fields: Any) -> None:
    file = component_folder(store, name) / "component.json"
    write_json(file, {**read_json(file), **fields})


def test_what_is_published_is_what_is_loaded(own: Entries) -> None:
    assert list_components(own) == []
    head = head_of(own, 1)
    record = publish_component(own, "small", head, ABOUT)
    assert list_components(own) == ["small"]
    assert component_record(own, "small") == record
    assert (record["format"], record["kind"], record["keys"]) == (2, "head", ["att"])
    assert (record["steps"], record["multiplications"]) == (3, head.multiplications)
    assert component_checksum(own, "small", None) == record["xxh3"]
    assert np.array_equal(logs_of(load_stored(own, "small"), own), logs_of(head, own))


def test_a_mixture_with_neighbors_finds_its_datastore_again(own: Entries) -> None:
    knn = KNN(own, Retrieval(k=5), 3.0)
    mixture = Mixture((knn, head_of(own, 1)), (0.25, 0.75))
    publish_component(own, "both", mixture, ABOUT)
    loaded = load_stored(own, "both")
    assert isinstance(loaded, Mixture)
    assert loaded.parts[0].retrieval == knn.retrieval
    assert np.array_equal(logs_of(loaded, own), logs_of(mixture, own))


def test_a_name_is_given_to_another_component_in_one_step(
    own: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = head_of(own, 1), head_of(own, 2)
    publish_component(own, "small", first, ABOUT)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, step in ((Component, "save"), (stored, "checksum_file"), (stored, "write_json")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, killed)
            with pytest.raises(KeyboardInterrupt):
                publish_component(own, "small", second, ABOUT)
        assert np.array_equal(logs_of(load_stored(own, "small"), own), logs_of(first, own))
    publish_component(own, "small", second, ABOUT)
    assert np.array_equal(logs_of(load_stored(own, "small"), own), logs_of(second, own))
    record = component_record(own, "small")
    assert {file.name for file in component_folder(own, "small").iterdir()} == {
        "component.json",
        record["file"],
    }


def test_a_link_in_the_folder_is_not_written_through(own: Entries, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    folder = component_folder(own, "small")
    folder.mkdir(parents=True)
    (folder / "component.draft").symlink_to(tmp_path / "precious")
    record = publish_component(own, "small", head_of(own, 1), ABOUT)
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert {file.name for file in folder.iterdir()} == {"component.json", record["file"]}


def test_the_same_component_can_be_published_again(own: Entries) -> None:
    record = publish_component(own, "small", head_of(own, 1), ABOUT)
    assert publish_component(own, "small", head_of(own, 1), ABOUT) == record
    assert np.array_equal(logs_of(load_stored(own, "small"), own), logs_of(head_of(own, 1), own))


def test_a_component_of_an_earlier_version_says_what_to_do(own: Entries) -> None:
    folder = component_folder(own, "old")
    folder.mkdir(parents=True)
    write_json(folder / "component.json", {"format": 1, "what": {"kind": "embeddings"}})
    sentence = (
        f"component old of {own.path} was made by an earlier knnlm: distill it again under the "
        f"name old, or delete {own.path}/components/old"
    )
    for refused in (component_record, load_stored):
        with pytest.raises(KnnlmError, match=f"^{re.escape(sentence)}$"):
            refused(own, "old")
    publish_component(own, "old", head_of(own, 1), ABOUT)
    assert component_record(own, "old")["format"] == 2


def test_a_component_of_a_later_version_is_refused(own: Entries) -> None:
    publish_component(own, "small", head_of(own, 1), ABOUT)
    change_record(own, "small", format=3)
    with pytest.raises(KnnlmError, match="has format 3 but this knnlm reads up to 2: install a"):
        load_stored(own, "small")


@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_file_is_found(own: Entries, harm: str) -> None:
    record = publish_component(own, "small", head_of(own, 1), ABOUT)
    file = component_folder(own, "small") / record["file"]
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    if harm == "delete":
        file.unlink()
    else:
        file.write_bytes(data if harm == "flip" else data[:-50])
    with pytest.raises(DamagedError, match="small .* damaged or missing: make it again"):
        load_stored(own, "small")


def test_a_damaged_record_is_found(own: Entries) -> None:
    publish_component(own, "small", head_of(own, 1), ABOUT)
    file = component_folder(own, "small") / "component.json"
    file.write_text(file.read_text().replace('"head"', '"mead"'))
    with pytest.raises(DamagedError, match="damaged"):
        load_stored(own, "small")


def test_a_component_of_another_model_is_refused(own: Entries) -> None:
    publish_component(own, "small", head_of(own, 1), ABOUT)
    change_record(own, "small", model="another")
    with pytest.raises(KnnlmError, match="another model's states: make it again"):
        load_stored(own, "small")


def test_a_datastore_that_has_changed_is_a_note(
    own: Entries, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_component(own, "small", head_of(own, 1), ABOUT)
    change_record(own, "small", datastore="as it was")
    monkeypatch.setattr(log, "propagate", True)
    with caplog.at_level(logging.WARNING):
        component = load_stored(own, "small")
    assert "has changed since component small was learned from it" in caplog.text
    assert np.array_equal(logs_of(component, own), logs_of(head_of(own, 1), own))


def test_names(own: Entries) -> None:
    for name in ("head", "mlp-att.2", "A_b", "7"):
        check_component_name(name)
    for name in ("", "a b", "../up", ".hidden", "-x", "a/b"):
        with pytest.raises(UsageError, match="is not a name for a component: use letters, digits"):
            check_component_name(name)
    with pytest.raises(UsageError, match="the name of the neighbors themselves"):
        check_component_name(KNN_NAME)
    with pytest.raises(KnnlmError, match="has no component: make one with `Datastore.distill`"):
        component_record(own, "small")
    publish_component(own, "small", head_of(own, 1), ABOUT)
    with pytest.raises(UsageError, match="unknown component 'smal': did you mean 'small'"):
        load_stored(own, "smal")


def test_settings_open_the_neighbors_or_a_stored_component(own: Entries, index: str) -> None:
    publish_component(own, "small", head_of(own, 1), ABOUT)
    head = open_component(own, "small", None, 0.5)
    assert (head.tau, head.retrieval) == (0.5, None)
    retrieval = Retrieval(k=7)
    knn = open_component(own, KNN_NAME, retrieval, 2.0)
    assert isinstance(knn, KNN)
    assert (knn.tau, knn.retrieval) == (2.0, retrieval)
    assert component_checksum(own, KNN_NAME, retrieval) is None
    assert component_checksum(own, KNN_NAME, Retrieval(index=index, k=7))
