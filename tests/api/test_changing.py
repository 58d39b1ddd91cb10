"""`add`, `forget` and `compact` on a datastore with an index, a component, caches and settings."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from knnlm import KNNLM, Datastore
from knnlm.cli.main import run
from knnlm.errors import KnnlmError

pytestmark = pytest.mark.pipeline
SECRET = "zanzibar quetzal marmalade"


@pytest.fixture(scope="module")
def kept(
    tiny_model: Path, texts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A datastore of two files, tuned, with an index and clusters."""
    folder = tmp_path_factory.mktemp("changing")
    (folder / "docs").mkdir()
    words = texts["train"].read_text().split()
    rng = np.random.default_rng(0)
    secret = " ".join(rng.permutation([*SECRET.split() * 20, *words[:200]]))
    (folder / "docs" / "secret.txt").write_text(secret)
    (folder / "docs" / "plain.txt").write_text(" ".join(words))
    store = Datastore.build(str(tiny_model), str(folder / "docs"), folder / "store")
    store.build_index(factory="IVF4,SQ8", nprobe=4, refine=4)
    KNNLM(store).tune(str(texts["valid"]))
    store.distill(kind="clusters", size=16, name="small")
    return folder


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Datastore:
    return Datastore.open(shutil.copytree(kept / "store", tmp_path / "store"))


def bytes_of(folder: Path) -> bytes:
    """Every file of a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def own_states(store: Datastore, name: str) -> list[bytes]:
    """States that only this document has."""
    entries, found = store.entries, set()
    number = [document.name for document in entries.documents].index(name)
    own = entries.document_numbers == number
    for key in entries.keys:
        states = entries.key(key).all()
        found |= {s.tobytes() for s in states[own]} - {s.tobytes() for s in states[~own]}
    return sorted(found)


def test_nothing_of_a_forgotten_document_is_found_or_left_on_disk(store: Datastore) -> None:
    states = own_states(store, "secret.txt")
    wide = [np.frombuffer(s, np.float16).astype(np.float32).tobytes() for s in states]
    tokens = store.entries.targets[store.entries.document_numbers == 1][:40].tobytes()
    assert len(states) > 50
    change = store.forget("secret.txt")
    assert change.documents == change.documents_before - 1
    assert change.entries == len(store) < change.entries_before
    change = store.compact()
    assert change.bytes < change.bytes_before
    everything = bytes_of(store.path)
    assert b"secret.txt" not in everything
    assert tokens not in everything
    assert not any(state in everything for state in [*states, *wide])
    store.verify()


def test_a_component_made_from_forgotten_documents_is_refused_then_deleted(
    store: Datastore, texts: dict[str, Path]
) -> None:
    assert store.components == ["small"]
    store.forget("secret.txt")
    with pytest.raises(KnnlmError, match="component small .* was made from documents that were"):
        KNNLM(store, component="small").evaluate(str(texts["test"]))
    store.compact()
    assert store.components == []
    assert all(settings.component == "knn" for settings in store.info().settings)
    store.distill(str(texts["valid"]), kind="clusters", size=16, name="small")
    KNNLM(store, component="small").evaluate(str(texts["test"]))


def test_an_evaluation_after_changes_is_that_of_a_datastore_built_so(
    store: Datastore, kept: Path, tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text(" ".join(texts["train"].read_text().split()[100:400]))
    store.add(str(more))
    store.forget(["secret.txt"])
    folder = tmp_path / "docs"
    folder.mkdir()
    shutil.copy(kept / "docs" / "plain.txt", folder / "a.txt")
    shutil.copy(more, folder / "b.txt")
    fresh = Datastore.build(str(tiny_model), str(folder), tmp_path / "fresh")
    for compacted in (False, True):
        if compacted:
            store.compact()
        ours, theirs = (
            KNNLM(each, lam=0.3, tau=1.0, k=16, exact=True).evaluate(str(texts["test"]))
            for each in (store, fresh)
        )
        assert ours.interp_ppl == pytest.approx(theirs.interp_ppl, rel=2e-3)
        assert ours.coverage == pytest.approx(theirs.coverage, abs=5e-3)


def test_tuned_settings_and_the_index_they_name_work_after_every_change(
    store: Datastore, texts: dict[str, Path], tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("the cat sat on a grey mat and looked at it while it rained " * 20)
    (index,) = store.indexes
    changes = (lambda: store.add(str(more)), lambda: store.forget("secret.txt"), store.compact)
    for change in changes:
        change()
        assert store.indexes == [index]
        result = KNNLM(store).evaluate(str(texts["test"]))
        assert result.settings.retrieval.index == index  # type: ignore[union-attr]


def test_on_the_command_line(
    store: Datastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, more = str(store.path), tmp_path / "more.txt"
    more.write_text("the cat sat on a grey mat and looked at it while it rained " * 20)
    assert run(["add", path, "--text", str(more), "--json"]) == 0
    added = json.loads(capsys.readouterr().out)
    assert added["documents"] == added["documents_before"] + 1 == 3
    assert run(["forget", path, "--document", "secret.txt", "--document", "more.txt"]) == 0
    assert "next: knnlm compact" in capsys.readouterr().out
    assert run(["forget", path, "--document", "secrets.txt"]) == 2
    assert "unknown document 'secrets.txt'" in capsys.readouterr().err
    assert run(["compact", path, "--json"]) == 0
    compacted = json.loads(capsys.readouterr().out)
    assert compacted["documents"] == 1
    assert compacted["bytes"] < compacted["bytes_before"]
