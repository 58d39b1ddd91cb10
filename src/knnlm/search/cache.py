"""Search once, sweep everything: the neighbors of a whole text, kept on disk.

    STORE/cache/neighbors/<fingerprint>-k<k>/    one table of ids and scores, a row for each query

The fingerprint is of all that neighbors depend on: datastore, queries, key, metric, index and kind
of score. A search for fewer neighbors reads the head of a larger one; an interrupted search
resumes; a damaged one is searched again.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knnlm.datastore import (
    MANIFEST,
    ColumnType,
    Entries,
    Table,
    TableWriter,
    open_table,
    verify_table,
)
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import DamagedError
from knnlm.files import fingerprint
from knnlm.locks import write_lock
from knnlm.progress import ProgressBar, log
from knnlm.search.exact import with_exact_scores
from knnlm.search.index_records import is_refined
from knnlm.search.neighbors import Neighbors
from knnlm.search.open import open_search
from knnlm.search.retrieval import Retrieval, check_index

NEIGHBORS_KIND = "neighbors"
_QUERIES_PER_COMMIT = 1 << 12
_BlockSearch = Callable[[int, int], Neighbors]
"""From (start, stop) to the neighbors of queries start … stop-1."""


class CachedNeighbors:
    """Neighbors on disk, read a block of queries at a time."""

    def __init__(self, table: Table, k: int) -> None:
        self.table, self.k = table, k

    def __len__(self) -> int:
        return self.table.rows

    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbors of queries start … stop-1."""
        ids = self.table.columns["id"].read(start, stop)[:, : self.k].astype(np.int64)
        return Neighbors(ids, self.table.columns["score"].read(start, stop)[:, : self.k])


def cached_neighbors(store: Entries, queries: Entries, retrieval: Retrieval) -> CachedNeighbors:
    """The neighbors of every hidden state of a text, searched only if they are not cached.

    Args:
        store: The datastore that is searched; the cache is kept in its folder.
        queries: The states of a text under the same model.
        retrieval: Which neighbors, and which scores.

    Raises:
        KnnlmError: The index is missing, does not fit, or is damaged.

    Example:
        >>> neighbors = cached_neighbors(store, queries, Retrieval(k=64))
        >>> neighbors.read(0, 10).ids.shape
        (10, 64)
    """
    identity = _identity(store, queries, retrieval, check_index(store, retrieval))
    folder = store.path / "cache" / "neighbors"
    table = _finished(store, folder, identity, retrieval)
    if table is None:
        path = folder / f"{identity}-k{retrieval.k}"
        refuse_links(path, below=store.path)
        search = _block_search(store, queries, retrieval)
        table = _search_all(path, queries.count, store.count, retrieval, search)
    return CachedNeighbors(table, retrieval.k)


def _identity(
    store: Entries, queries: Entries, retrieval: Retrieval, index: dict[str, Any] | None
) -> str:
    """A fingerprint of all that neighbors depend on; k is in the folder's name beside it.

    Words inside it stay as they were first spelled, so that caches made earlier are still used.
    """
    return fingerprint(
        {
            "store": store.fingerprint,
            "queries": queries.fingerprint,
            "key": retrieval.key,
            "metric": retrieval.metric,
            "mask": "exact" if index is None else index["xxh3"],
            "nprobe": None if index is None else index["nprobe"],
            "score": {"index": "search", "exact": "real"}[retrieval.score],
        }
    )


def _finished(store: Entries, folder: Path, identity: str, retrieval: Retrieval) -> Table | None:
    """A finished search for k neighbors or, where their head is the same search, for more.

    Exact scores of an index's k neighbors are not such a head: they reorder those k only.
    """
    reordered = not retrieval.exact and retrieval.score == "exact"
    for path in sorted(folder.glob(f"{identity}-k*")):
        k = int(path.name.rpartition("-k")[2])
        usable = k == retrieval.k or (k > retrieval.k and not reordered)
        if usable and (path / MANIFEST).is_file():
            try:
                table = open_table(path, NEIGHBORS_KIND, unfinished=True)
                verify_table(table)
            except DamagedError as error:
                log.warning(f"{error}; searching again")
                remove_folder(path, below=store.path)
                continue
            if table.manifest["complete"]:
                return table
    return None


def _block_search(store: Entries, queries: Entries, retrieval: Retrieval) -> _BlockSearch:
    """How to find the neighbors of a block of queries.

    Exact scores of an index's neighbors need no second search: the cached neighbors of the index
    are scored again, unless a refined index has exact scores already.
    """
    states = queries.key(retrieval.key)
    index = check_index(store, retrieval)
    if index is None or retrieval.score == "index" or is_refined(index):
        search = open_search(store, retrieval)
        return lambda start, stop: search(states.read(start, stop))
    keys = store.key(retrieval.key)
    by_index = cached_neighbors(store, queries, replace(retrieval, score="index"))
    return lambda start, stop: with_exact_scores(
        by_index.read(start, stop), states.read(start, stop), keys, retrieval.metric
    )


def _search_all(
    path: Path, queries: int, entries: int, retrieval: Retrieval, search: _BlockSearch
) -> Table:
    """Search for all queries into a table, or resume where it stopped."""
    columns = {
        "id": ColumnType("<i4" if entries < 1 << 31 else "<i8", retrieval.k),
        "score": ColumnType("<f4", retrieval.k),
    }
    label = (
        f"search {retrieval.key}-{retrieval.metric} {retrieval.search_name} "
        f"({retrieval.score} scores)"
    )
    with write_lock(path), TableWriter(path, NEIGHBORS_KIND, columns, {"k": retrieval.k}) as writer:
        with ProgressBar(label, queries, "queries", start=writer.rows) as meter:
            for start in range(writer.rows, queries, _QUERIES_PER_COMMIT):
                neighbors = search(start, start + _QUERIES_PER_COMMIT)
                writer.append({"id": neighbors.ids, "score": neighbors.scores})
                writer.commit()
                meter.advance(len(neighbors.ids))
        writer.finish({})
    return open_table(path, NEIGHBORS_KIND)
