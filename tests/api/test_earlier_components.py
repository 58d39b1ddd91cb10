"""A component that an earlier knnlm made cannot be used, but does not hide the datastore."""

import json
import re
import shutil
from pathlib import Path

import pytest
import safetensors.torch

from knnlm import KNNLM, DamagedError, Datastore, KnnlmError
from knnlm.cli.main import run
from knnlm.components.records import RECORD
from knnlm.disk import checksum_file
from knnlm.files import read_json, write_json
from knnlm.tensors import read_tensors


def note(store: Datastore) -> str:
    """What is said of the component `head`."""
    advice = f"distill it again under the name head, or delete {store.path}/components/head"
    return f"was made by an earlier knnlm: {advice}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tuned_store: Path) -> Path:
    """A datastore with two components; the record of `head` is as format 1 had it."""
    path = shutil.copytree(tuned_store, tmp_path_factory.mktemp("earlier") / "store")
    store = Datastore.open(path)
    store.distill(kind="clusters", size=8)
    store.distill(kind="clusters", size=4, name="head")
    record = path / "components" / "head" / RECORD
    fields = read_json(record)
    kept = {name: fields[name] for name in ("model", "file", "xxh3")}
    write_json(record, {"format": 1, "lambda": 0.2, "tau": 1.0, "kind": "embeddings", **kept})
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Datastore:
    return Datastore.open(shutil.copytree(made, tmp_path / "store"))


def test_info_lists_it_with_a_note(store: Datastore, capsys: pytest.CaptureFixture[str]) -> None:
    info = store.info()
    assert list(info.components) == ["clusters", "head"]
    assert info.components["head"]["note"] == note(store)
    assert "note" not in info.components["clusters"]
    assert f"  component head: {note(store)}" in str(info).splitlines()
    made = "  component clusters: clusters on att, made with 'knnlm distill "
    assert any(line.startswith(made) for line in str(info).splitlines())
    assert "earlier knnlm" in info._repr_html_()
    assert run(["info", str(store.path), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["components"]["head"]["note"] == note(store)


def test_verify_compares_its_bytes_and_says_one_sentence(
    store: Datastore, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["verify", str(store.path)]) == 0
    output = capsys.readouterr()
    assert output.err == f"note: component head of {store.path} {note(store)}\n"
    assert "2 components are whole" in output.out
    (file,) = (store.path / "components" / "head").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="component head .* damaged or missing: make it again"):
        store.verify()
    file.unlink()
    with pytest.raises(DamagedError, match="component head .* damaged or missing: make it again"):
        store.verify()


def test_it_is_not_used(store: Datastore, texts: dict[str, Path]) -> None:
    with pytest.raises(KnnlmError, match=re.escape(note(store))):
        KNNLM(store, component="head").evaluate(texts["test"])
    model = KNNLM(store, component="clusters")
    assert model.evaluate(texts["test"]).tokens > 0


def test_a_component_without_a_checksum_of_its_own_opens(
    store: Datastore, texts: dict[str, Path]
) -> None:
    """As the same format had it before: its checksum is in the record only."""
    before = KNNLM(store, component="clusters").evaluate(texts["test"])
    record = store.path / "components" / "clusters" / RECORD
    fields = read_json(record)
    file = record.with_name(fields["file"])
    tensors, note = read_tensors(file)
    file.write_bytes(safetensors.torch.save(tensors, {"note": json.dumps(note)}))
    checksum = checksum_file(file)
    assert checksum != fields["xxh3"]
    file.rename(file.with_name(f"{checksum}.safetensors"))
    write_json(record, {**fields, "file": f"{checksum}.safetensors", "xxh3": checksum})
    assert KNNLM(store, component="clusters").evaluate(texts["test"]) == before
    store.verify()


def test_it_is_replaced_by_a_new_one(store: Datastore) -> None:
    store.distill(kind="clusters", size=4, name="head")
    assert all("note" not in record for record in store.info().components.values())
    assert store.verify().components == ["clusters", "head"]
