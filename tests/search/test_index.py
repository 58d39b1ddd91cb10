"""Indexes: measured, described, and refused when they are not what they claim."""

import os
import stat
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

import knnlm.search.factory as factory
import knnlm.search.faiss_index as faiss_index
import knnlm.search.index_building as index_module
from knnlm.datastore.entries import Entries
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.files import read_json, write_json
from knnlm.search.exact import exact_search
from knnlm.search.factory import default_factory, paper_factory
from knnlm.search.index import open_index
from knnlm.search.index_building import build_index
from knnlm.search.index_records import list_indexes
from knnlm.search.neighbors import recall
from knnlm.search.scores import score_entries
from knnlm.similarity import Metric


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_a_flat_index_is_exact_search(store: Entries, metric: Metric) -> None:
    index = build_index(store, "att", metric, factory="Flat")
    states = store.key("att").read(0, 20)
    # equal scores at the edge are FAISS's choice
    assert index.manifest["recall"] == pytest.approx(1.0, abs=2e-3)
    near, truth = index.search(states, 50), exact_search(states, store.key("att"), 50, metric)
    assert recall(near, truth) > 0.99
    np.testing.assert_allclose(near.scores, truth.scores, atol=1e-3)
    assert (np.diff(near.scores, axis=1) <= 0).all()


def test_the_measured_recall_is_kept_and_is_that_of_the_index(store: Entries) -> None:
    coarse = build_index(store, "ffn", "l2", factory="IVF64,Flat", nprobe=1, recall=0)
    fine = build_index(store, "ffn", "l2", factory="IVF64,Flat", nprobe=64)
    assert coarse.manifest["recall"] < 0.7 < 0.99 < fine.manifest["recall"]
    assert (
        read_json(store.path / "indexes" / coarse.name / "manifest.json")["recall"]
        == coarse.manifest["recall"]
    )


def test_nprobe_survives_a_reopening_and_any_wrapper(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="PCA8,IVF16,Flat", nprobe=5, recall=0)
    assert faiss.extract_index_ivf(open_index(store, index.name).faiss).nprobe == 5


def test_an_index_below_the_wanted_recall_is_refused_and_not_kept(store: Entries) -> None:
    with pytest.raises(KnnlmError, match=r"finds only .*, not 90%: raise `nprobe`, choose a finer"):
        build_index(store, "att", "l2", factory="IVF64,Flat", nprobe=1, recall=0.9)
    assert list_indexes(store) == []


def test_the_wanted_recall_holds_for_an_index_that_exists(store: Entries) -> None:
    build_index(store, "att", "l2", factory="IVF64,Flat", nprobe=1, recall=0)
    with pytest.raises(KnnlmError, match="not 90%: raise `nprobe`"):
        build_index(store, "att", "l2", factory="IVF64,Flat", nprobe=1, recall=0.9)


def test_short_lists_leave_missing_neighbors_with_no_score(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="IVF128,Flat", nprobe=1, recall=0)
    near = index.search(store.key("att").read(0, 9), 400)
    gone = near.ids < 0
    assert gone.any()
    assert np.isneginf(near.scores[gone]).all()
    assert np.isfinite(near.scores[~gone]).all()


def test_a_flipped_bit_is_found(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="Flat")
    file = store.path / "indexes" / index.name / index.manifest["file"]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with pytest.raises(
        DamagedError,
        match=r"index\.faiss is damaged .*index`, `key` att and `metric` l2",
    ):
        open_index(store, index.name)


def test_an_index_of_the_wrong_metric_is_refused(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="Flat")
    manifest = store.path / "indexes" / index.name / "manifest.json"
    write_json(manifest, {**read_json(manifest), "metric": "ip"})
    with pytest.raises(DamagedError, match="not the index that its manifest describes"):
        open_index(store, index.name)


def test_an_index_of_another_datastore_is_refused(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="Flat")
    manifest = store.path / "indexes" / index.name / "manifest.json"
    write_json(manifest, {**read_json(manifest), "store": "another"})
    with pytest.raises(KnnlmError, match="covers .* entries of another state"):
        open_index(store, index.name)


def test_nonsense_factories_and_names_get_a_sentence(store: Entries) -> None:
    with pytest.raises(UsageError, match="FAISS cannot make 'IVF10,Nonsense'"):
        build_index(store, "att", "l2", factory="IVF10,Nonsense")
    with pytest.raises(UsageError, match="needs at least 65,536 entries and the datastore has"):
        build_index(store, "att", "l2", factory="IVF65536,Flat")
    with pytest.raises(
        KnnlmError,
        match="has no index: build one with `Datastore.build_index`, or search with `exact`",
    ):
        open_index(store, "att-l2")
    with pytest.raises(UsageError, match="nprobe = 0 is out of range"):
        build_index(store, "att", "l2", nprobe=0)


def test_the_papers_index_where_the_datastore_is_large_enough() -> None:
    assert paper_factory(112_733_184, 1024) == "IVF4096,PQ64np"
    assert paper_factory(1 << 20, 256) == "IVF4096,PQ64np"
    assert paper_factory(500_000, 128) == "IVF512,PQ32np"
    assert paper_factory(5_000, 128) == "IVF64,Flat"
    assert paper_factory(1_000, 128) == "Flat"
    assert paper_factory(20_000, 7) == "IVF128,PQ1np"


def test_the_default_index_by_size_and_width() -> None:
    assert default_factory(1_100_000, 288) == "IVF1024,PQ144x4fs"
    assert default_factory(1_100_000, 288, small=True) == "IVF1024,PQ72x4fs"
    assert default_factory(5_000, 128) == "IVF64,Flat"
    assert default_factory(1_000, 128) == "Flat"
    assert default_factory(20_000, 7) == "IVF128,SQ8"


@pytest.fixture
def larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' datastore counts as large enough for codes."""
    monkeypatch.setattr(factory, "CODEBOOK_ENTRIES", 1000)


@pytest.mark.usefixtures("larger")
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("factory_name", [None, "small"])
def test_the_default_index_reaches_its_recall_with_exact_scores(
    store: Entries, metric: Metric, factory_name: str | None
) -> None:
    index = build_index(store, "att", metric, recall=0.9, factory=factory_name)
    assert index.manifest["recall"] >= 0.9
    assert index.manifest["augmented"] == (metric == "ip")
    states, keys = store.key("att").read(0, 30), store.key("att")
    near = index.search(states, 20)
    again = score_entries(metric, states, near.ids, keys)
    np.testing.assert_array_equal(near.scores, again)
    assert recall(near, exact_search(states, keys, 20, metric)) > 0.9
    assert np.array_equal(open_index(store, index.name).search(states, 20).ids, near.ids)


@pytest.mark.usefixtures("larger")
def test_a_higher_recall_takes_more_effort(store: Entries) -> None:
    some, most = (build_index(store, "ffn", "l2", recall=recall) for recall in (0.5, 0.99))
    assert some.manifest["recall"] >= 0.5
    assert most.manifest["recall"] >= 0.99
    efforts = [(i.manifest["refine"], i.manifest["nprobe"]) for i in (some, most)]
    assert efforts[0] < efforts[1]
    assert some.name != most.name


def test_a_named_factory_is_built_as_it_is(store: Entries) -> None:
    plain = build_index(store, "att", "ip", factory="IVF32,PQ4x4", nprobe=32, recall=0)
    assert plain.name == "att-ip-IVF32_PQ4x4-probe32"
    assert not plain.refined
    assert not plain.manifest["augmented"]
    refined = build_index(store, "att", "l2", factory="IVF32,PQ4x4", nprobe=32, refine=4)
    coarse = build_index(store, "att", "l2", factory="IVF32,PQ4x4", nprobe=32, recall=0)
    assert refined.manifest["recall"] > coarse.manifest["recall"]
    chosen = build_index(store, "att", "l2", factory="IVF32,Flat", recall=0.9)
    assert chosen.manifest["recall"] >= 0.9
    assert chosen.manifest["nprobe"] < 32


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"refine": 0}, "`refine` 0 is out of range: choose 1 to 16"),
        ({"recall": 1.0}, "`recall` 1.0 is out of range: choose 0 to less than 1"),
    ],
)
def test_efforts_out_of_range_are_refused(
    store: Entries, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build_index(store, "att", "l2", **asked)


def test_a_recall_that_codes_cannot_reach_is_an_error(store: Entries) -> None:
    with pytest.raises(KnnlmError, match=r"finds only .*, not 99%: choose a finer"):
        build_index(store, "att", "l2", factory="IVF4,PQ1x4", recall=0.99, refine=1)
    assert list_indexes(store) == []


def test_an_index_of_the_first_format_is_searched_as_it_was(store: Entries) -> None:
    index = build_index(store, "att", "l2", factory="IVF32,Flat", nprobe=8)
    before = index.search(store.key("att").read(0, 9), 12)
    file = store.path / "indexes" / index.name / "manifest.json"
    old = {k: v for k, v in read_json(file).items() if k not in ("refine", "augmented")}
    write_json(file, {**old, "format": 1})
    after = open_index(store, index.name).search(store.key("att").read(0, 9), 12)
    assert np.array_equal(before.ids, after.ids)
    assert np.array_equal(before.scores, after.scores)


def test_training_is_not_repeated_after_an_interruption(
    store: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def not_again(*_: object) -> None:
        pytest.fail("trained twice")

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "add_entries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_index(store, "att", "l2", factory="IVF16,Flat")
    trained = next(store.path.glob("indexes/*/trained.faiss"))
    monkeypatch.setattr(faiss_index, "_train", not_again)
    index = build_index(store, "att", "l2", factory="IVF16,Flat")
    assert index.manifest["rows"] == store.count
    assert not trained.exists()


def interrupted_after_training(store: Entries, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build an index until it is trained; returns what is kept of it."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "add_entries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_index(store, "att", "l2", factory="IVF16,Flat", nprobe=16)
    return next(store.path.glob("indexes/*/trained.faiss"))


@pytest.mark.parametrize("harm", ["flip", "cut", "no record"])
def test_a_damaged_trained_index_is_trained_again(
    store: Entries, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    trained = interrupted_after_training(store, monkeypatch)
    good = trained.read_bytes()
    if harm == "no record":
        trained.with_name("trained.json").unlink()
    else:
        trained.write_bytes(good[:-40] if harm == "cut" else flipped(good, len(good) - 300))
    seen: list[bytes] = []
    really = faiss_index.add_entries

    def look(*given: Any) -> None:
        seen.append(trained.read_bytes())
        really(*given)

    monkeypatch.setattr(index_module, "add_entries", look)
    build_index(store, "att", "l2", factory="IVF16,Flat", nprobe=16)
    assert seen == [good]
    assert {file.name for file in trained.parent.iterdir()} == {
        "index.faiss",
        "manifest.json",
        ".lock",
    }


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 1]) + data[byte + 1 :]


@pytest.mark.parametrize("name", ["trained.faiss", "index.faiss"])
def test_a_disk_that_is_full_while_an_index_is_written_is_one_sentence(
    store: Entries, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The index is small, so that all of it waits in a buffer until the file is closed."""
    really = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if mode == "xb" and path.name.startswith(name):
            return open("/dev/full", "wb")
        return really(path, mode, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(KnnlmError, match=f"the disk under .*{name} is full: free some space"):
            build_index(store, "att", "l2", factory="IVF4,Flat", nprobe=4)
    assert list_indexes(store) == []
    assert build_index(store, "att", "l2", factory="IVF4,Flat", nprobe=4).manifest["rows"]


def test_an_index_that_faiss_cannot_write_is_one_sentence(tmp_path: Path) -> None:
    random: Any = faiss
    with pytest.raises(KnnlmError, match=r"FAISS cannot write .*x.faiss \(.*\): choose another"):
        faiss_index.write_index(random.IndexRandom(4), tmp_path / "x.faiss")
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_is_cut_on_its_way_to_the_disk_is_refused(
    store: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def cut(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode) and os.fstat(handle).st_size > 10_000:
            os.ftruncate(handle, 10_000)
        real(handle)

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(DamagedError, match=r"index.faiss was written and reads back as something"):
        build_index(store, "att", "l2", factory="Flat")
    assert list_indexes(store) == []


def test_an_index_is_written_as_faiss_itself_writes_it(store: Entries, tmp_path: Path) -> None:
    index = build_index(store, "att", "l2", factory="IVF8,Flat", nprobe=8)
    file = store.path / "indexes" / index.name / "index.faiss"
    manifest = read_json(file.with_name("manifest.json"))
    faiss.write_index(faiss.read_index(str(file)), str(tmp_path / "again.faiss"))
    assert file.read_bytes() == (tmp_path / "again.faiss").read_bytes()
    assert manifest["bytes"] == file.stat().st_size
    assert manifest["xxh3"] == checksum_file(file)
