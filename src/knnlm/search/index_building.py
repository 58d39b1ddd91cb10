"""A FAISS index of one key: built, measured against exact search, kept beside its datastore, and
kept up to date with it."""

import time
from pathlib import Path
from typing import Any

import faiss

from knnlm import defaults
from knnlm.datastore import Entries, note_deleted, note_kept
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import KnnlmError
from knnlm.files import write_json
from knnlm.locks import write_lock
from knnlm.progress import log, log_result
from knnlm.ranges import check_path
from knnlm.search.effort import choose_effort
from knnlm.search.exact import exact_search
from knnlm.search.factory import Design, design_index
from knnlm.search.faiss_index import (
    IndexedStates,
    add_entries,
    drop_trained_index,
    sample_states,
    set_nprobe,
    trained_index,
    write_index,
)
from knnlm.search.index import Index, open_index
from knnlm.search.index_records import (
    FORMAT,
    INDEX_FILE,
    MANIFEST,
    covers,
    describe_index,
    how_to_rebuild,
    index_folder,
    index_manifest,
    list_indexes,
)
from knnlm.search.neighbors import recall
from knnlm.similarity import Metric, checked_metric


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
    store.key(key)  # is it stored?
    check_path(store.path)
    keys = store.table.columns[key]
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
    if name in list_indexes(store) and covers(describe_index(store, name), store):
        log.info(f"index {name} is built already")
        index = open_index(store, name)
        _check_recall(index.manifest, design)
        return index
    refuse_links(manifest.parent, below=store.path)
    with write_lock(manifest.parent):
        _build(store, key, metric, design, seed)
    return open_index(store, name)


def index_name(key: str, metric: Metric, design: Design) -> str:
    """The name of an index: all that it depends on beside the datastore."""
    plain = "".join(c if c.isalnum() else "_" for c in design.factory)
    effort = f"recall{design.recall:g}" if design.nprobe is None else f"probe{design.nprobe}"
    refine = f"-refine{design.refine}" if (design.refine or 1) > 1 else ""
    return f"{key}-{metric}-{plain}-{effort}{refine}"


def _build(
    store: Entries, key: str, metric: Metric, design: Design, seed: int, name: str | None = None
) -> None:
    """Build, measure, write; the manifest comes last, and an index without one does not exist."""
    began, keys = time.monotonic(), store.table.columns[key]
    name = name or index_name(key, metric, design)
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
        "design": {"nprobe": design.nprobe, "refine": design.refine, "recall": design.recall},
    }
    manifest |= _rows_of(store)
    _measure(Index(name, manifest, built, keys), design, seed)
    _check_recall(manifest, design)
    _publish(store, folder / INDEX_FILE, manifest, built, began)
    log_result(f"index {name}: recall@{manifest['recall_k']} {manifest['recall']:.3f}")


def update_index(store: Entries, name: str, *, seed: int = 0) -> Index:
    """Take the documents that were added since an index was built into it; lists and codebooks stay
    as they were trained.

    Args:
        store: The datastore.
        name: The index.
        seed: Of the states that its recall is measured with.

    Returns:
        The index, open. Until now it was right too, but compared those entries one by one.

    Raises:
        KnnlmError: There is no such index, it is of another datastore, or FAISS cannot add to it.
    """
    began, folder = time.monotonic(), index_folder(store, name)
    refuse_links(folder, below=store.path)
    with write_lock(folder):
        manifest = index_manifest(store, name)
        rows, total = int(manifest["rows"]), store.table.rows
        if rows < total:
            built = open_index(store, name).faiss
            column = store.table.columns[manifest["key"]]
            metric = checked_metric(manifest["metric"])
            augmented = bool(manifest.get("augmented"))
            states = IndexedStates(column.slices([(0, rows)]), metric, augmented)
            add_entries(built, states, column.slices([(rows, total - rows)]))
            manifest = {**manifest, **_rows_of(store)}
            design = design_of(manifest)
            _measure(Index(name, manifest, built, column), design, seed)
            if manifest["recall"] < design.recall:
                log.warning(
                    f"note: index {name} finds {manifest['recall']:.1%} of the true neighbors now, "
                    f"not {design.recall:.0%}: {how_to_rebuild(manifest)}"
                )
            _publish(store, folder / f"index-{total}.faiss", manifest, built, began)
    return open_index(store, name)


def rebuild_index(store: Entries, name: str, *, seed: int = 0) -> Index:
    """Build an index again, as it was designed, from the entries as they are now.

    Raises:
        KnnlmError: Too few entries are left for it; it is deleted.
    """
    folder = index_folder(store, name)
    manifest = describe_index(store, name)
    refuse_links(folder, below=store.path)
    with write_lock(folder):
        drop_trained_index(folder)
        design = design_of(manifest)
        try:
            _build(store, manifest["key"], checked_metric(manifest["metric"]), design, seed, name)
        except KnnlmError:
            remove_folder(folder, below=store.path)
            with write_lock(store.path, patience=10):
                note_deleted(store.path, [folder / MANIFEST])
            raise
    return open_index(store, name)


def design_of(manifest: dict[str, Any]) -> Design:
    """How an index was asked for, from its manifest; one of before says only how it is searched."""
    asked = manifest.get("design") or {
        "nprobe": manifest["nprobe"],
        "refine": manifest.get("refine", 1),
        "recall": 0.0,
    }
    return Design(manifest["factory"], augmented=bool(manifest.get("augmented")), **asked)


def _rows_of(store: Entries) -> dict[str, Any]:
    """What an index of all rows covers."""
    return {"rows": store.table.rows, "store": store.rows_fingerprint(store.table.rows)}


def _publish(
    store: Entries, file: Path, manifest: dict[str, Any], built: Any, began: float
) -> None:
    """Write the index, then the manifest that names it, and delete what no manifest names."""
    manifest |= {"file": file.name, **write_index(built, file)}
    manifest["seconds"] = round(time.monotonic() - began, 1)
    write_json(file.with_name(MANIFEST), manifest)
    drop_trained_index(file.parent)
    with write_lock(store.path, patience=10):
        files = [index_folder(store, name) / MANIFEST for name in list_indexes(store)]
        note_kept(store.path, files)
    for other in file.parent.glob("*.faiss"):
        if other != file:
            other.unlink()


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
