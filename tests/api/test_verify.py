"""`verify` notices what vanished, names what it does not know, and says what to do."""

import json
import shutil
from pathlib import Path

import pytest

from knnlm import DamagedError, Datastore
from knnlm.cli.main import run
from knnlm.files import read_json, write_json

INDEX = "indexes/att-l2-IVF4_Flat-probe4"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tuned_store: Path) -> Path:
    path = Path(shutil.copytree(tuned_store, tmp_path_factory.mktemp("verify") / "store"))
    store = Datastore.open(path)
    store.build_index(factory="IVF4,Flat", nprobe=4, recall=0)
    store.distill(kind="clusters", size=4)
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be harmed."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def verified(store: Path) -> str:
    return str(Datastore.open(store).verify())


def test_all_that_is_kept_is_noted(store: Path) -> None:
    assert read_json(store / "kept.json") == {
        "format": 1,
        "files": ["components/clusters/component.json", f"{INDEX}/manifest.json", "tuned.json"],
    }
    assert "1 index and 1 component are whole" in verified(store)
    assert Datastore.open(store).verify().unknown == []


@pytest.mark.parametrize(
    "name", ["tuned.json", "components/clusters/component.json", f"{INDEX}/manifest.json"]
)
def test_what_vanished_is_named_with_a_way_out(store: Path, name: str) -> None:
    (store / name).unlink()
    with pytest.raises(DamagedError) as e:
        verified(store)
    assert str(e.value) == (
        f"{store} lacks {name}, which was kept with it: restore it from a copy or make it again; "
        f"if it was deleted on purpose, delete {store}/kept.json too"
    )
    (store / "kept.json").unlink()
    assert "are whole" in verified(store)


def test_several_that_vanished_are_named_at_once(store: Path) -> None:
    shutil.rmtree(store / "indexes")
    shutil.rmtree(store / "components")
    with pytest.raises(
        DamagedError,
        match=r"lacks components/clusters/component.json and indexes/.*manifest.json, which were "
        r"kept with it: restore them from a copy or make them again; if they were deleted",
    ):
        verified(store)


def test_what_is_made_again_is_not_missed(store: Path) -> None:
    shutil.rmtree(store / INDEX)
    Datastore.open(store).build_index(factory="IVF4,Flat", nprobe=4, recall=0)
    assert "1 index and" in verified(store)


def test_what_is_kept_later_does_not_hide_what_vanished(store: Path) -> None:
    shutil.rmtree(store / "components")
    Datastore.open(store).build_index(factory="Flat", recall=0)
    with pytest.raises(DamagedError, match=r"lacks components/clusters/component.json, which"):
        verified(store)


def test_a_datastore_of_before_notes_all_of_a_kind_with_the_next(store: Path) -> None:
    (store / "kept.json").unlink()
    assert "are whole" in verified(store)
    Datastore.open(store).build_index(factory="Flat", recall=0)
    indexes = ["indexes/att-l2-Flat-recall0/manifest.json", f"{INDEX}/manifest.json"]
    assert read_json(store / "kept.json")["files"] == indexes


def test_a_damaged_list_is_refused_and_written_again(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (store / "kept.json").write_text("{")
    with pytest.raises(DamagedError, match=r"kept\.json is damaged"):
        verified(store)
    Datastore.open(store).build_index(factory="Flat", recall=0)
    assert "kept.json is damaged (it is not JSON)" in caplog.text
    assert "2 indexes" in verified(store)


def test_files_of_others_are_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "cache/odd").mkdir(parents=True)
    write_json(store / "cache/odd/manifest.json", {"colour": "blue"})
    for name in ("notes.txt", "cache/odd/x.npy", "parts/000000/more.npy", "indexes/.lock"):
        (store / name).write_text("x")
    (store / "manifest.json.tmp").write_text("{")  # of a writer that was killed
    result = Datastore.open(store).verify()
    odd = ["cache/odd/manifest.json", "cache/odd/x.npy", "notes.txt", "parts/000000/more.npy"]
    assert result.unknown == odd
    assert str(result).endswith(
        "; files that knnlm did not write were not compared: cache/odd/manifest.json, "
        "cache/odd/x.npy, notes.txt and 1 other"
    )
    capsys.readouterr()
    assert run(["verify", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == odd


def test_a_search_that_is_not_finished_is_no_file_of_others(store: Path) -> None:
    manifest = next(store.glob("cache/neighbors/*/manifest.json"))
    fields = read_json(manifest)
    shutil.copytree(manifest.parent / "parts/000000", manifest.parent / "parts/000001")
    write_json(manifest, {**fields, "complete": False})
    assert Datastore.open(store).verify().unknown == []


def test_damage_in_the_cache_is_noticed(store: Path) -> None:
    manifest = next(store.glob("cache/states/*/manifest.json"))
    write_json(manifest, {**read_json(manifest), "rows": 7})
    with pytest.raises(DamagedError, match=r"damaged \(rows is not the sum of the rows of the pa"):
        verified(store)


def test_documents_that_do_not_add_up_are_noticed(store: Path) -> None:
    fields = read_json(store / "manifest.json")
    fields["summary"]["documents"] = 5
    write_json(store / "manifest.json", fields)
    with pytest.raises(DamagedError, match=r"manifest\.json is damaged \(summary.documents is not"):
        verified(store)


def test_what_compact_deletes_is_not_missed(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Datastore.build(tiny_model, [texts["train"], texts["test"]], tmp_path / "store")
    store.build_index(factory="IVF4,Flat", nprobe=4, recall=0)
    store.distill(texts["valid"], kind="clusters", size=4)
    store.forget("test.txt")
    assert "1 index and 1 component are whole" in str(store.verify())
    assert "component clusters of" in caplog.text
    store.compact()
    assert store.components == []
    assert "1 index and 0 components are whole" in str(store.verify())
    assert store.verify().unknown == []
