"""A FAISS index of one key column: built, tested against exact search, kept beside the store,
opened with suspicion.

    STORE/indexes/<name>/index.faiss     what FAISS writes
    STORE/indexes/<name>/manifest.json   key, metric, factory, nprobe, rows, store fingerprint, recall, checksum

FAISS detects neither a flipped bit nor a wrong metric nor a forgotten nprobe; the manifest does.
Knows no tokens."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.datastore.table import Column
from knnlm.errors import DamagedError, KnnlmError, UsageError, unknown
from knnlm.files import (
    checksum_file,
    commit_file,
    explain_os_errors,
    read_json,
    write_json,
    write_lock,
)
from knnlm.progress import ProgressBar, log
from knnlm.search.exact import check_k, exact_search
from knnlm.search.factory import NPROBE, check_nprobe, default_factory
from knnlm.search.neighbors import Neighbors, in_order, recall
from knnlm.similarity import Metric, checked_metric, from_distance

FORMAT = 1
RECALL_FLOOR = 0.3
RECALL_QUERIES = 128
RECALL_K = 1024
_ADD_ROWS = 1 << 16
_SEARCH_QUERIES = 1 << 10
_TRAIN_ROWS_PER_LIST = 256
_TRAIN_ROWS_LEAST = 1 << 16


class Index(NamedTuple):
    """An index open for search."""

    name: str
    manifest: dict[str, Any]
    faiss: Any

    @property
    def metric(self) -> Metric:
        """What it was built for."""
        return checked_metric(self.manifest["metric"])

    def search(self, queries: NDArray[Any], k: int) -> Neighbors:
        """The k nearest rows it finds, with its own (approximate) scores, in our order."""
        check_k(k)
        ids = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _SEARCH_QUERIES):
            block = np.ascontiguousarray(queries[start : start + _SEARCH_QUERIES], np.float32)
            values, near = self.faiss.search(block, k)
            found = in_order(near, from_distance(self.metric, values), k)
            ids[start : start + len(block)], scores[start : start + len(block)] = found
        return Neighbors(ids, scores)


def build_index(
    store: Entries,
    key: str,
    metric: Metric,
    *,
    factory: str | None = None,
    nprobe: int = NPROBE,
    recall_floor: float = RECALL_FLOOR,
    seed: int = 0,
) -> Index:
    """Build (or reopen) the index of `key`; refuse one whose recall against exact search is below
    the floor."""
    check_nprobe(nprobe)
    if not 0 <= recall_floor <= 1:
        raise UsageError(f"recall floor {recall_floor} is out of range: choose 0 to 1")
    column = store.key(key)
    store.verify(key)
    factory = factory or default_factory(store.count, column.type.width)
    name = index_name(key, metric, factory, nprobe)
    folder = store.path / "indexes" / name
    if (folder / "manifest.json").is_file() and read_json(folder / "manifest.json")[
        "store"
    ] == store.fingerprint:
        log.info(f"index {name} is built already")
        index = open_index(store, name)
        _check_recall(
            index.manifest["recall"], index.manifest["recall_k"], recall_floor, factory, nprobe
        )
        return index
    with write_lock(folder):
        began = time.monotonic()
        index = _trained(column, metric, factory, seed, folder)
        _add(index, column)
        set_nprobe(index, nprobe)
        measured, k = _recall(index, column, metric, seed)
        _check_recall(measured, k, recall_floor, factory, nprobe)
        _write(index, folder)
        write_json(
            folder / "manifest.json",
            {
                "format": FORMAT,
                "key": key,
                "metric": metric,
                "factory": factory,
                "nprobe": nprobe,
                "rows": store.count,
                "store": store.fingerprint,
                "recall": measured,
                "recall_k": k,
                "bytes": (folder / "index.faiss").stat().st_size,
                "xxh3": checksum_file(folder / "index.faiss"),
                "seconds": round(time.monotonic() - began, 1),
            },
        )
        (folder / "trained.faiss").unlink(missing_ok=True)
    log.info(f"index {name}: recall@{k} {measured:.3f}")
    return open_index(store, name)


def index_manifest(store: Entries, name: str) -> dict[str, Any]:
    """What is known of an index of this store, after checking that it belongs to it; the index
    itself is not read."""
    if name not in list_indexes(store):
        hint = "build one with 'knnlm index', or search with --exact"
        raise (
            unknown("index", name, list_indexes(store))
            if list_indexes(store)
            else KnnlmError(f"{store.path} has no index: {hint}")
        )
    manifest = read_json(store.path / "indexes" / name / "manifest.json", newest_format=FORMAT)
    if manifest["store"] != store.fingerprint:
        raise KnnlmError(
            f"index {name} covers {manifest['rows']:,} rows of another state of {store.path}: "
            f"{_again(store, manifest)}"
        )
    return manifest


def open_index(store: Entries, name: str) -> Index:
    """Open an index of this store, after checking that it is whole and belongs to it."""
    manifest = index_manifest(store, name)
    folder, again = store.path / "indexes" / name, _again(store, manifest)
    file = folder / "index.faiss"
    if not file.is_file() or checksum_file(file) != manifest["xxh3"]:
        raise DamagedError(f"{file} is damaged (its checksum differs): delete {folder} and {again}")
    index = faiss.read_index(str(file))
    kind = faiss.METRIC_L2 if manifest["metric"] == "l2" else faiss.METRIC_INNER_PRODUCT
    if index.metric_type != kind or index.ntotal != store.count:
        raise DamagedError(
            f"{file} is not the index that its manifest describes: delete {folder} and {again}"
        )
    set_nprobe(index, int(manifest["nprobe"]))
    return Index(name, manifest, index)


def _again(store: Entries, manifest: dict[str, Any]) -> str:
    return f"run 'knnlm index {store.path} --key {manifest['key']} --metric {manifest['metric']}' again"


def list_indexes(store: Entries) -> list[str]:
    """Names of the finished indexes of a store."""
    return sorted(p.parent.name for p in store.path.glob("indexes/*/manifest.json"))


def index_name(key: str, metric: Metric, factory: str, nprobe: int) -> str:
    """The folder name of an index."""
    plain = "".join(c if c.isalnum() else "_" for c in factory)
    return f"{key}-{metric}-{plain}-probe{nprobe}"


def set_nprobe(index: Any, nprobe: int) -> None:
    """Set how many lists are probed, through any wrapper, and read it back; FAISS alone would leave
    it at 1."""
    ivf = faiss.try_extract_index_ivf(index)
    if ivf is not None:
        ivf.nprobe = min(nprobe, ivf.nlist)
        again: Any = faiss.extract_index_ivf(index)
        assert again.nprobe == min(nprobe, ivf.nlist)


def _trained(
    column: Column,
    metric: Metric,
    factory: str,
    seed: int,
    folder: Path,
) -> Any:
    """An empty, trained index; training is kept on disk, so a rerun does not repeat it."""
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    saved = folder / "trained.faiss"
    if saved.is_file():
        try:
            return faiss.read_index(str(saved))
        except RuntimeError:
            saved.unlink()
    try:
        index = faiss.index_factory(column.type.width, factory, kind)
    except RuntimeError as error:
        raise UsageError(
            f"FAISS cannot make '{factory}' for states of width {column.type.width}: see the FAISS "
            "index factory "
            "for valid strings"
        ) from error
    if not index.is_trained:
        began = time.monotonic()
        ivf = faiss.try_extract_index_ivf(index)
        wanted = max(_TRAIN_ROWS_LEAST, _TRAIN_ROWS_PER_LIST * ivf.nlist if ivf is not None else 0)
        rows = _sample(column, wanted, seed)
        if ivf is not None and len(rows) < ivf.nlist:
            raise UsageError(
                f"'{factory}' needs at least {ivf.nlist:,} rows and the store has {len(column):,}: "
                "use fewer lists"
            )
        if ivf is not None:
            ivf.cp.min_points_per_centroid = (
                1  # its warning goes to C's stderr; recall is checked below
            )
        _faiss(factory, index.train, rows)
        log.info(f"trained {factory} on {len(rows):,} rows in {time.monotonic() - began:.1f} s")
        _write(index, folder, "trained.faiss")
    return index


def _faiss(what: str, call: Any, rows: NDArray[np.float32]) -> None:
    """Let FAISS work; its exceptions are about the factory string, the width or the number of
    rows."""
    try:
        call(rows)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].partition("Error: ")[2] or "it gives no reason"
        raise KnnlmError(
            f"FAISS cannot build {what} from {rows.shape[0]:,} rows of width {rows.shape[1]} "
            f"({reason}): choose "
            "another --factory"
        ) from error


def _sample(column: Column, wanted: int, seed: int) -> NDArray[np.float32]:
    """Random rows, in the order of the store."""
    if wanted >= len(column):
        return np.asarray(column.all(), np.float32)
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(len(column), size=wanted, replace=False))
    return column.gather(ids).astype(np.float32)


def _add(
    index: Any,
    column: Column,
) -> None:
    with ProgressBar("index", len(column), "rows") as meter:
        for _, block in column.blocks(_ADD_ROWS):
            _faiss("the index", index.add, block.astype(np.float32))
            meter.advance(len(block))


def _recall(index: Any, column: Column, metric: Metric, seed: int) -> tuple[float, int]:
    """Recall on sampled rows as queries. Their own row is among the neighbours of both searches."""
    k = min(RECALL_K, len(column))
    queries = _sample(column, RECALL_QUERIES, seed + 1)
    values, ids = index.search(queries, k)
    found = in_order(ids, from_distance(metric, values), k)
    return recall(found, exact_search(queries, column, k, metric)), k


def _check_recall(measured: float, k: int, floor: float, factory: str, nprobe: int) -> None:
    if measured < floor:
        raise KnnlmError(
            f"index '{factory}' with nprobe {nprobe} finds only {measured:.1%} of the true {k} "
            "neighbours, below the "
            f"floor of {floor:.0%}: raise --nprobe, choose a finer --factory, or lower "
            "--recall-floor"
        )


def _write(index: Any, folder: Path, name: str = "index.faiss") -> None:
    aside = folder / (name + ".tmp")
    with explain_os_errors(folder):
        try:
            faiss.write_index(index, str(aside))
        except RuntimeError as error:
            raise KnnlmError(f"cannot write {folder / name}: is the disk full?") from error
    commit_file(aside, folder / name)
