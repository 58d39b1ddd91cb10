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
from knnlm.datastore import Column, Entries, note_published
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import checksum_file, write_json, write_lock
from knnlm.progress import log, log_result
from knnlm.ranges import check_k
from knnlm.search.effort import choose_effort
from knnlm.search.exact import exact_search, with_exact_scores
from knnlm.search.factory import Design, augmented_width, design_index
from knnlm.search.faiss_index import (
    TRAINED_FILE,
    IndexedStates,
    add_entries,
    as_indexed_queries,
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
    describe_index,
    how_to_rebuild,
    index_file,
    index_folder,
    index_manifest,
    is_refined,
    list_indexes,
)
from knnlm.search.neighbors import Neighbors, recall, top_k
from knnlm.search.scores import keep_faiss_to_its_core
from knnlm.similarity import Metric, checked_metric, from_distance

_SEARCHED_AT_ONCE = 1 << 11
_LEAST_CANDIDATES = 512
"""Scored again, however small k is: the error of codes does not shrink with k."""


class Index(NamedTuple):
    """An index open for search.

    Attributes:
        name: Its folder's name, for instance "att-l2-IVF512_PQ64x4fs-recall0.95".
        manifest: What was written when it was built; "recall" is recall@"recall_k".
        faiss: The FAISS object.
        keys: The stored states, which candidates are scored from.
    """

    name: str
    manifest: dict[str, Any]
    faiss: Any
    keys: Column

    def __repr__(self) -> str:
        recall = f"recall@{self.manifest['recall_k']} {self.manifest['recall']:.3f}"
        return f"Index({self.name!r}, {recall})"

    @property
    def metric(self) -> Metric:
        """The metric that it was built for."""
        return checked_metric(self.manifest["metric"])

    @property
    def refined(self) -> bool:
        """Whether candidates are scored again, so that its scores are exact."""
        return is_refined(self.manifest)

    def search(self, queries: NDArray[Any], k: int) -> Neighbors:
        """The k nearest entries that the index finds.

        Args:
            queries: (Q, D) hidden states.
            k: Neighbors of each query; where the visited lists hold fewer, some are missing.

        Returns:
            The neighbors (Q, k), nearest first, with exact scores if the index is refined and with
            its own (approximate) ones otherwise.

        Raises:
            UsageError: k is out of range.
        """
        check_k(k)
        keep_faiss_to_its_core()
        asked = np.ascontiguousarray(queries, np.float32)
        count = k
        if self.refined:
            wanted = max(k * int(self.manifest["refine"]), _LEAST_CANDIDATES)
            count = max(k, min(wanted, len(self.keys)))
        ids = np.empty((len(asked), k), np.int64)
        scores = np.empty((len(asked), k), np.float32)
        for start in range(0, len(asked), _SEARCHED_AT_ONCE):
            block = slice(start, start + _SEARCHED_AT_ONCE)
            padded = as_indexed_queries(asked[block], self.faiss.d)
            values, candidates = self.faiss.search(padded, count)
            near = Neighbors(candidates, from_distance(self.metric, values))
            if self.refined:
                ids[block], scores[block] = with_exact_scores(
                    near, asked[block], self.keys, self.metric, k
                )
            else:
                ids[block], scores[block] = top_k(near.ids, near.scores, k)
        return Neighbors(ids, scores)


def build_index(
    store: Entries,
    key: str,
    metric: Metric,
    *,
    factory: str | None = None,
    nprobe: int | None = None,
    refine: int | None = None,
    recall: float | None = None,
    seed: int = 0,
) -> Index:
    """Build the index of one key and measure its recall, or open it if it is built already.

    Args:
        store: The datastore; the index is written beside its entries.
        key: Which states: "att" or "ffn".
        metric: "l2" or "ip".
        factory: FAISS factory string, or "small" for the default index with half the codes; by
            default chosen by size (factory.py).
        nprobe: Inverted lists visited for each query; by default as many as `recall` takes, or 32
            for a factory that is named without it.
        refine: Candidates that are scored again from the stored states, for each neighbor; 1 is
            none. By default as `nprobe`, or 1 for a factory that is named.
        recall: The recall@1024 to reach, or else the index is refused. 0.95 by default, and 0.3
            where `nprobe` is not chosen for it.
        seed: Of the states that the index is trained and measured on.

    Raises:
        UsageError: FAISS cannot make such an index, or a number is out of range.
        KnnlmError: The recall is not reached; the index is not kept.

    Example:
        >>> index = build_index(open_entries("store"), "att", "l2", factory="IVF64,Flat")
        >>> neighbors = index.search(states, k=8)  # states (Q, D), neighbors (Q, 8)
    """
    keys = store.key(key)
    design = design_index(
        len(keys),
        keys.type.width,
        metric,
        factory=factory,
        nprobe=nprobe,
        refine=refine,
        recall=recall,
    )
    name = index_name(key, metric, design)
    manifest = index_folder(store, name) / MANIFEST
    if name in list_indexes(store) and describe_index(store, name)["store"] == store.fingerprint:
        log.info(f"index {name} is built already")
        index = open_index(store, name)
        _check_recall(index.manifest, design)
        return index
    with write_lock(manifest.parent):
        _build(store, key, metric, design, seed)
    return open_index(store, name)


def open_index(store: Entries, name: str) -> Index:
    """Open an index after checking that it is whole and belongs to this datastore.

    Raises:
        KnnlmError: There is no such index, or the datastore has changed since it was built.
        DamagedError: The file is not what was written.
    """
    manifest, file = index_manifest(store, name), index_file(store, name)
    keys = store.key(manifest["key"])
    try:
        index = faiss.read_index(str(file))
    except RuntimeError:
        index = None
    if index is None or not _fits(index, manifest, keys):
        raise DamagedError(
            f"{file} is not the index that its manifest describes: delete {file.parent} and "
            f"{how_to_rebuild(manifest)}"
        )
    set_nprobe(index, int(manifest["nprobe"]))
    if is_refined(manifest):
        keys.verify()  # now, not in the middle of a text
    return Index(name, manifest, index, keys)


def _fits(index: Any, manifest: dict[str, Any], keys: Column) -> bool:
    """Whether an index has the metric, width and entries that its manifest names."""
    augmented = manifest.get("augmented", False)
    metric = checked_metric("l2" if augmented else manifest["metric"])
    width = augmented_width(keys.type.width) if augmented else keys.type.width
    right_metric = index.metric_type == faiss_metric(metric)
    return bool(right_metric and index.d == width and index.ntotal == len(keys))


def index_name(key: str, metric: Metric, design: Design) -> str:
    """The name of an index: all that it depends on beside the datastore."""
    plain = "".join(c if c.isalnum() else "_" for c in design.factory)
    effort = f"recall{design.recall:g}" if design.nprobe is None else f"probe{design.nprobe}"
    refine = f"-refine{design.refine}" if (design.refine or 1) > 1 else ""
    return f"{key}-{metric}-{plain}-{effort}{refine}"


def _build(store: Entries, key: str, metric: Metric, design: Design, seed: int) -> None:
    """Build, measure, write; the manifest comes last, and an index without one does not exist."""
    began = time.monotonic()
    name, keys = index_name(key, metric, design), store.key(key)
    folder = index_folder(store, name)
    states = IndexedStates(keys, metric, augmented=design.augmented)
    built = trained_index(states, design.factory, seed, folder)
    add_entries(built, states)
    manifest = {
        "format": FORMAT,
        "key": key,
        "metric": metric,
        "factory": design.factory,
        "augmented": design.augmented,
        "rows": store.count,
        "store": store.fingerprint,
    }
    _measure(Index(name, manifest, built, keys), design, seed)
    _check_recall(manifest, design)
    write_index(built, folder / INDEX_FILE)
    manifest |= {
        "bytes": (folder / INDEX_FILE).stat().st_size,
        "xxh3": checksum_file(folder / INDEX_FILE),
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(folder / MANIFEST, manifest)
    with write_lock(store.path, patience=10):
        names = list_indexes(store)
        note_published(store.path, (index_folder(store, n) / MANIFEST for n in names))
    (folder / TRAINED_FILE).unlink(missing_ok=True)
    log_result(f"index {name}: recall@{manifest['recall_k']} {manifest['recall']:.3f}")


def _measure(index: Index, design: Design, seed: int) -> None:
    """Write nprobe, refine and the recall that they give into the manifest. Entries are the
    queries, and each finds itself in both searches."""
    keys, manifest = index.keys, index.manifest
    k = min(defaults.RECALL_K, len(keys))
    queries = sample_states(keys, defaults.RECALL_QUERIES, seed + 1)
    truth = exact_search(queries, keys, k, index.metric)

    def measured(nprobe: int, refine: int) -> float:
        manifest["nprobe"], manifest["refine"] = nprobe, refine
        set_nprobe(index.faiss, nprobe)
        return recall(index.search(queries, k), truth)

    ivf = faiss.try_extract_index_ivf(index.faiss)
    nprobe, refine = choose_effort(design, 1 if ivf is None else int(ivf.nlist), measured)
    manifest["recall"], manifest["recall_k"] = measured(nprobe, refine), k


def _check_recall(manifest: dict[str, Any], design: Design) -> None:
    if manifest["recall"] < design.recall:
        more = "" if design.nprobe is None else "raise `nprobe`, "
        raise KnnlmError(
            f"index '{manifest['factory']}' with nprobe {manifest['nprobe']} finds only "
            f"{manifest['recall']:.1%} of the true {manifest['recall_k']} neighbors, not "
            f"{design.recall:.0%}: {more}choose a finer `factory`, or lower `recall`"
        )
