"""Indexes of a datastore that changed: what was added is found, what was forgotten is not."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from knnlm.datastore import (
    Entries,
    add_documents,
    compact_entries,
    forget_documents,
    open_entries,
)
from knnlm.errors import KnnlmError
from knnlm.models.load import LanguageModel
from knnlm.search import (
    Retrieval,
    build_index,
    cached_neighbors,
    exact_search,
    list_indexes,
    open_index,
    rebuild_index,
    recall,
    update_index,
)
from knnlm.search import index_building as index_module
from knnlm.similarity import Metric
from knnlm.text import open_for_datastore

K = 20


@pytest.fixture
def changed(store: Entries, lm: LanguageModel, tmp_path: Path) -> Entries:
    """Documents of two files."""
    words = [
        "the",
        "cat",
        "sat",
        "on",
        "a",
        "grey",
        "mat",
        "and",
        "looked",
        "at",
        "it",
        "while",
        "rained",
    ]
    rng = np.random.default_rng(0)
    folder = tmp_path / "more"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.txt").write_text(" ".join(rng.choice(words, 300)))
    return add_documents(lm, store, open_for_datastore(str(folder)))


def assert_same(store: Entries, name: str, queries: np.ndarray) -> None:
    """An index that visits everything finds what exact search finds."""
    found = open_index(store, name).search(queries, K)
    truth = exact_search(queries, store.key("att"), K, open_index(store, name).metric)
    np.testing.assert_array_equal(found.ids, truth.ids)
    np.testing.assert_array_equal(found.scores, truth.scores)


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("updated", [False, True])
def test_added_documents_are_found_whether_the_index_took_them_in_or_not(
    metric: Metric,
    updated: bool,
    store: Entries,
    lm: LanguageModel,
    texts: dict[str, Path],
) -> None:
    name = build_index(store, "att", metric, factory="IVF4,SQ8", nprobe=4, refine=8).name
    assert open_index(store, name).later is None
    store = add_documents(lm, store, open_for_datastore(str(texts["valid"])))
    if updated:
        update_index(store, name)
    index = open_index(store, name)
    assert (index.later is None) == updated
    assert index.faiss.ntotal == (store.count if updated else index.manifest["rows"])
    assert_same(store, name, store.key("att").read(store.count - 30, store.count))
    assert_same(store, name, store.key("att").read(0, 30))


def test_forgotten_documents_are_not_found_and_others_instead(
    changed: Entries,
) -> None:
    name = build_index(changed, "att", "l2", factory="IVF4,SQ8", nprobe=4, refine=2).name
    gone = changed.documents[-1].name
    asked = changed.key("att").read(changed.count - 40, changed.count)
    left = forget_documents(changed, [gone])
    assert_same(left, name, asked)
    first = forget_documents(left, [left.documents[0].name])
    assert_same(first, name, asked)
    ids = open_index(first, name).search(asked, K).ids
    assert ids.max() < first.count
    assert gone not in {first.document_of(int(entry)) for entry in np.unique(ids[ids >= 0])}


def test_an_index_of_a_part_of_what_is_left_and_of_what_came_later(
    store: Entries, lm: LanguageModel, texts: dict[str, Path]
) -> None:
    name = build_index(store, "att", "l2", factory="IVF4,SQ8", nprobe=4, refine=8).name
    store = add_documents(lm, store, open_for_datastore(str(texts["valid"])))
    store = add_documents(lm, store, open_for_datastore(str(texts["test"])))
    store = forget_documents(store, [store.documents[1].name])
    index = open_index(store, name)
    assert index.later is not None
    assert_same(store, name, store.key("att").read(0, store.count)[::17])
    update_index(store, name)
    assert open_index(store, name).later is None
    assert_same(store, name, store.key("att").read(0, store.count)[::17])


def test_neighbors_that_were_cached_before_are_not_used(changed: Entries, queries: Entries) -> None:
    before = cached_neighbors(changed, queries, Retrieval(k=K))
    left = forget_documents(changed, [changed.documents[0].name])
    after = cached_neighbors(left, queries, Retrieval(k=K)).read(0, 50)
    truth = exact_search(queries.key("att").read(0, 50), left.key("att"), K, "l2")
    np.testing.assert_array_equal(after.ids, truth.ids)
    assert before.read(0, 1).ids.shape == (1, K)


def test_after_compacting_an_index_is_refused_until_it_is_built_again(changed: Entries) -> None:
    name = build_index(changed, "att", "l2", factory="IVF4,SQ8", nprobe=4, refine=8).name
    compacted = compact_entries(forget_documents(changed, [changed.documents[0].name]))
    with pytest.raises(KnnlmError, match="of another state"):
        open_index(compacted, name)
    index = rebuild_index(compacted, name)
    assert index.name == name
    assert index.faiss.ntotal == compacted.count
    assert_same(compacted, name, compacted.key("att").read(0, 40))


def test_an_index_that_too_few_entries_are_left_for_is_deleted(changed: Entries) -> None:
    name = build_index(changed, "att", "l2", factory="IVF512,Flat", nprobe=512).name
    largest = max(changed.documents, key=lambda document: document.tokens).name
    others = {document.name for document in changed.documents} - {largest}
    few = compact_entries(forget_documents(changed, [largest, *sorted(others)[:-1]]))
    if few.count >= 512:
        pytest.skip("enough are left")
    with pytest.raises(KnnlmError, match="needs at least 512 entries"):
        rebuild_index(few, name)
    assert list_indexes(few) == []


def test_an_interrupted_update_leaves_the_index_as_it_was(
    store: Entries,
    lm: LanguageModel,
    texts: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = build_index(store, "att", "l2", factory="IVF4,SQ8", nprobe=4, refine=8).name
    store = add_documents(lm, store, open_for_datastore(str(texts["valid"])))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            update_index(store, name)
    assert open_index(store, name).later is not None
    assert_same(store, name, store.key("att").read(0, 30))
    update_index(store, name)
    files = list((store.path / "indexes" / name).glob("*.faiss"))
    assert len(files) == 1


def test_recall_with_half_of_the_documents_forgotten_is_about_what_it_was(
    changed: Entries, tmp_path: Path
) -> None:
    name = build_index(changed, "att", "l2", factory="IVF16,PQ8x4", recall=0.8).name
    half = [document.name for document in changed.documents][::2]
    left = forget_documents(changed, half)
    index = open_index(left, name)
    asked = left.key("att").read(0, left.count)[:: max(1, left.count // 64)]
    truth = exact_search(asked, left.key("att"), K, "l2")
    assert recall(index.search(asked, K), truth) > index.manifest["recall"] - 0.1
    shutil.rmtree(open_entries(left.path).path)
