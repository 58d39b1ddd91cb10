"""A FAISS index of one key: built, measured against exact search, kept beside its datastore.

FAISS detects neither a flipped bit nor a wrong metric nor a forgotten nprobe; the manifest does, so
an index that is not what it claims to be is refused when it is opened.
"""

import time
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm import defaults
from knnlm.datastore import Column, Entries
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.files import checksum_file, read_json, write_json, write_lock
from knnlm.progress import log, log_result
from knnlm.ranges import check_k
from knnlm.search.exact import exact_search
from knnlm.search.factory import check_nprobe, default_factory
from knnlm.search.faiss_index import (
    TRAINED_FILE,
    add_entries,
    faiss_metric,
    sample_states,
    set_nprobe,
    trained_index,
    write_index,
)
from knnlm.search.index_records import (
    FORMAT,
    INDEX_FILE,
    MANIFEST,
    how_to_rebuild,
    index_file,
    index_folder,
    index_manifest,
)
from knnlm.search.neighbors import Neighbors, recall, top_k
from knnlm.similarity import Metric, checked_metric, from_distance

_SEARCHED_AT_ONCE = 1 << 10


class Index(NamedTuple):
    """An index open for search.

    Attributes:
        name: Its folder's name, for instance "att-l2-IVF512_PQ32np-probe32".
        manifest: What was written when it was built; "recall" is recall@"recall_k".
        faiss: The FAISS object.
    """

    name: str
    manifest: dict[str, Any]
    faiss: Any

    def __repr__(self) -> str:
        recall = f"recall@{self.manifest['recall_k']} {self.manifest['recall']:.3f}"
        return f"Index({self.name!r}, {recall})"

    @property
    def metric(self) -> Metric:
        """The metric that it was built for."""
        return checked_metric(self.manifest["metric"])

    def search(self, queries: NDArray[Any], k: int) -> Neighbors:
        """The k nearest entries that the index finds, with its own (approximate) scores.

        Args:
            queries: (Q, D) hidden states.
            k: Neighbors of each query; where the visited lists hold fewer, some are missing.

        Returns:
            The neighbors (Q, k), nearest first.

        Raises:
            UsageError: k is out of range.
        """
        check_k(k)
        ids = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _SEARCHED_AT_ONCE):
            block = np.ascontiguousarray(queries[start : start + _SEARCHED_AT_ONCE], np.float32)
            stop = start + len(block)
            ids[start:stop], scores[start:stop] = _search(self.faiss, block, k, self.metric)
        return Neighbors(ids, scores)


def build_index(
    store: Entries,
    key: str,
    metric: Metric,
    *,
    factory: str | None = None,
    nprobe: int = defaults.NPROBE,
    recall_floor: float = defaults.RECALL_FLOOR,
    seed: int = 0,
) -> Index:
    """Build the index of one key and measure its recall, or open it if it is built already.

    Args:
        store: The datastore; the index is written beside its entries.
        key: Which states: "att" or "ffn".
        metric: "l2" or "ip".
        factory: FAISS factory string; by default chosen by size (factory.py).
        nprobe: Inverted lists visited for each query.
        recall_floor: The least recall@1024 against exact search that is accepted.
        seed: Of the states that the index is trained and measured on.

    Raises:
        UsageError: FAISS cannot make such an index, or a number is out of range.
        KnnlmError: Recall is below the floor; the index is not kept.

    Example:
        >>> index = build_index(open_entries("store"), "att", "l2", factory="IVF64,Flat")
        >>> neighbors = index.search(states, k=8)  # states (Q, D), neighbors (Q, 8)
    """
    check_nprobe(nprobe)
    if not 0 <= recall_floor <= 1:
        raise UsageError(f"recall floor {recall_floor} is out of range: choose 0 to 1")
    keys = store.key(key)
    store.verify(key)
    factory = factory or default_factory(store.count, keys.type.width)
    name = index_name(key, metric, factory, nprobe)
    manifest = index_folder(store, name) / MANIFEST
    if manifest.is_file() and read_json(manifest)["store"] == store.fingerprint:
        log.info(f"index {name} is built already")
        index = open_index(store, name)
        _check_recall(index.manifest, recall_floor)
        return index
    with write_lock(manifest.parent):
        _build(store, key, metric, factory, nprobe, recall_floor, seed)
    return open_index(store, name)


def open_index(store: Entries, name: str) -> Index:
    """Open an index after checking that it is whole and belongs to this datastore.

    Raises:
        KnnlmError: There is no such index, or the datastore has changed since it was built.
        DamagedError: The file is not what was written.
    """
    manifest, file = index_manifest(store, name), index_file(store, name)
    index = faiss.read_index(str(file))
    right_metric = index.metric_type == faiss_metric(manifest["metric"])
    if not right_metric or index.ntotal != store.count:
        raise DamagedError(
            f"{file} is not the index that its manifest describes: delete {file.parent} and "
            f"{how_to_rebuild(manifest)}"
        )
    set_nprobe(index, int(manifest["nprobe"]))
    return Index(name, manifest, index)


def index_name(key: str, metric: Metric, factory: str, nprobe: int) -> str:
    """The name of an index: all that it depends on beside the datastore."""
    plain = "".join(c if c.isalnum() else "_" for c in factory)
    return f"{key}-{metric}-{plain}-probe{nprobe}"


def _build(
    store: Entries,
    key: str,
    metric: Metric,
    factory: str,
    nprobe: int,
    recall_floor: float,
    seed: int,
) -> None:
    """Build, measure, write; the manifest comes last, and an index without one does not exist."""
    began = time.monotonic()
    name, keys = index_name(key, metric, factory, nprobe), store.key(key)
    folder = index_folder(store, name)
    index = trained_index(keys, metric, factory, seed, folder)
    add_entries(index, keys)
    set_nprobe(index, nprobe)
    measured, k = _measured_recall(index, keys, metric, seed)
    manifest = {
        "format": FORMAT,
        "key": key,
        "metric": metric,
        "factory": factory,
        "nprobe": nprobe,
        "rows": store.count,
        "store": store.fingerprint,
        "recall": measured,
        "recall_k": k,
    }
    _check_recall(manifest, recall_floor)
    write_index(index, folder / INDEX_FILE)
    manifest |= {
        "bytes": (folder / INDEX_FILE).stat().st_size,
        "xxh3": checksum_file(folder / INDEX_FILE),
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(folder / MANIFEST, manifest)
    (folder / TRAINED_FILE).unlink(missing_ok=True)
    log_result(f"index {name}: recall@{k} {measured:.3f}")


def _search(index: Any, queries: NDArray[np.float32], k: int, metric: Metric) -> Neighbors:
    values, ids = index.search(queries, k)
    return top_k(ids, from_distance(metric, values), k)


def _measured_recall(index: Any, keys: Column, metric: Metric, seed: int) -> tuple[float, int]:
    """(recall@k, k) on sampled entries as queries; each finds itself in both searches."""
    k = min(defaults.RECALL_K, len(keys))
    queries = sample_states(keys, defaults.RECALL_QUERIES, seed + 1)
    return recall(_search(index, queries, k, metric), exact_search(queries, keys, k, metric)), k


def _check_recall(manifest: dict[str, Any], floor: float) -> None:
    if manifest["recall"] < floor:
        raise KnnlmError(
            f"index '{manifest['factory']}' with nprobe {manifest['nprobe']} finds only "
            f"{manifest['recall']:.1%} of the true {manifest['recall_k']} neighbors, below the "
            f"floor of {floor:.0%}: raise `nprobe`, choose a finer `factory`, or lower "
            "`recall_floor`"
        )
