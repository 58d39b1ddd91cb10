"""A folder inside a datastore that is a symbolic link is neither written into nor emptied."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from knnlm import KNNLM, Datastore, KnnlmError
from knnlm.evaluation.control import control_logprobs

pytestmark = pytest.mark.pipeline

Texts = dict[str, Path]


@pytest.fixture
def store(tuned_store: Path, tmp_path: Path) -> Datastore:
    return Datastore.open(shutil.copytree(tuned_store, tmp_path / "store"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of somebody else."""
    folder = tmp_path / "elsewhere"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "precious").write_bytes(b"mine")
    return folder


def link(folder: Path, elsewhere: Path) -> Path:
    """Put a link in place of a folder; what was in the folder is behind the link now."""
    if folder.exists():
        shutil.copytree(folder, elsewhere, dirs_exist_ok=True)
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(elsewhere)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def refused(linked: Path, elsewhere: Path, act: Callable[[], object]) -> None:
    """Acting is one sentence that names the link, and nothing behind it changes."""
    before = contents(elsewhere)
    with pytest.raises(KnnlmError, match=f"^{re.escape(str(linked))} is a symbolic link, and") as e:
        act()
    assert "\n" not in str(e.value)
    assert contents(elsewhere) == before
    assert linked.is_symlink()


@pytest.mark.parametrize("folder", ["cache", "cache/neighbors", "cache/states", "cache/overlap"])
def test_linked_caches(store: Datastore, texts: Texts, elsewhere: Path, folder: str) -> None:
    linked = link(store.path / folder, elsewhere)
    refused(linked, elsewhere, lambda: KNNLM(store).evaluate(texts["test"]))
    linked.unlink()
    KNNLM(store).evaluate(texts["test"])


@pytest.mark.parametrize("cache", ["neighbors", "states"])
def test_a_linked_cache_that_is_damaged_is_not_emptied(
    store: Datastore, texts: Texts, elsewhere: Path, cache: str
) -> None:
    KNNLM(store).evaluate(texts["test"])
    for folder in list((store.path / "cache" / cache).iterdir()):
        link(folder, elsewhere / folder.name)
    for file in elsewhere.rglob("*.npy"):
        file.write_bytes(file.read_bytes()[:-1])
    before = contents(elsewhere)
    with pytest.raises(KnnlmError, match=rf"store/cache/{cache}/\S+ is a symbolic link, and"):
        KNNLM(store).evaluate(texts["test"])
    assert contents(elsewhere) == before


@pytest.mark.parametrize("folder", ["indexes", "indexes/att-l2-Flat-probe32"])
def test_linked_indexes(store: Datastore, elsewhere: Path, folder: str) -> None:
    linked = link(store.path / folder, elsewhere)
    refused(linked, elsewhere, lambda: store.build_index(factory="Flat"))


@pytest.mark.parametrize("folder", ["components", "components/small", "components/small/learning"])
def test_linked_components(store: Datastore, elsewhere: Path, folder: str) -> None:
    linked = link(store.path / folder, elsewhere)
    refused(linked, elsewhere, lambda: store.distill(kind="clusters", size=4, name="small"))


def test_linked_log_probabilities_at_another_temperature(
    store: Datastore, texts: Texts, elsewhere: Path
) -> None:
    queries = store.queries(texts["valid"])
    linked = link(queries.path / "tempered", elsewhere)
    model = store.model.model
    refused(linked, elsewhere, lambda: control_logprobs(model, store.entries, queries, 1.7, 0.1))


def test_the_datastore_itself_may_be_a_link(store: Datastore, texts: Texts, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.path)
    linked = Datastore.open(tmp_path / "link")
    KNNLM(linked).evaluate(texts["test"])
    linked.build_index(factory="Flat")
    linked.distill(kind="clusters", size=4)
    assert linked.verify().components == ["clusters"]
