"""Search once, sweep everything: neighbours of an evaluation text, kept on disk under what they
depend on.

The folder's name is a fingerprint of the store, the queries, the key, the metric, the mask and the
kind of score; its k is in the name too, and a search for fewer neighbours reads the head of a
larger one. Interrupted, it goes on where it stopped. Knows nothing of tokens, τ or λ."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knnlm.datastore.entries import Entries
from knnlm.datastore.manifest import MANIFEST
from knnlm.datastore.table import ColumnType, Table, open_table, verify_table
from knnlm.datastore.table_writer import TableWriter
from knnlm.errors import DamagedError
from knnlm.files import fingerprint, write_lock
from knnlm.progress import ProgressBar, log
from knnlm.search.neighbors import Neighbors, in_order
from knnlm.search.retrieval import EXACT, Retrieval, check_index, open_search
from knnlm.similarity import rescore

KIND = "neighbors"
_SLAB = 1 << 12
Blocks = Callable[[int, int], Neighbors]


class CachedNeighbors:
    """Neighbours on disk; `read` gives a block of queries."""

    def __init__(self, table: Table, k: int) -> None:
        self.table, self.k = table, k

    def __len__(self) -> int:
        return self.table.rows

    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbours of queries start … stop-1."""
        ids = self.table.columns["id"].read(start, stop)[:, : self.k].astype(np.int64)
        return Neighbors(ids, self.table.columns["score"].read(start, stop)[:, : self.k])


def cached_neighbors(
    store: Entries,
    queries: Entries,
    what: Retrieval,
) -> CachedNeighbors:
    """Neighbours of every row of `queries`, searched only if no cached search holds them."""
    index = check_index(store, what)
    identity = _identity(store, queries, what, index)
    folder = store.path / "cache" / "neighbors"
    found = _cached(folder, identity, what)
    if found is None:
        search = _search(store, queries, what)
        found = _compute(folder / f"{identity}-k{what.k}", queries, what, search, store.count)
    return CachedNeighbors(found, what.k)


def _search(
    store: Entries,
    queries: Entries,
    what: Retrieval,
) -> Blocks:
    """How to find the neighbours of queries start … stop-1. Real scores of an index's neighbours
    need no second search: the neighbours are those of the search itself, scored again."""
    states = queries.key(what.key)
    if not what.exact and what.score == "exact":
        store.verify(what.key)
        column = store.key(what.key)
        masked = cached_neighbors(store, queries, replace(what, score="index"))

        def rescored(start: int, stop: int) -> Neighbors:
            ids = masked.read(start, stop).ids
            return in_order(
                ids, rescore(what.metric, states.read(start, stop), ids, column), what.k
            )

        return rescored
    search = open_search(store, what)
    return lambda start, stop: search(states.read(start, stop))


def _identity(
    store: Entries, queries: Entries, what: Retrieval, index: dict[str, Any] | None
) -> str:
    return fingerprint(
        {
            "store": store.fingerprint,
            "queries": queries.fingerprint,
            "key": what.key,
            "metric": what.metric,
            "mask": index["xxh3"] if index is not None else EXACT,
            "nprobe": index["nprobe"] if index is not None else None,
            "score": {"index": "search", "exact": "real"}[what.score],
        }
    )


def _cached(folder: Path, identity: str, what: Retrieval) -> Table | None:
    """A finished search for at least k. Real scores of an index's k best are those of that k
    only."""
    for path in sorted(folder.glob(f"{identity}-k*")):
        k = int(path.name.rpartition("-k")[2])
        enough = k == what.k or (k > what.k and (what.exact or what.score == "index"))
        if enough and (path / MANIFEST).is_file():
            try:
                table = open_table(path, KIND, unfinished=True)
                verify_table(table)
            except DamagedError as error:
                log.warning(f"{error}; searching again")
                shutil.rmtree(path)
                continue
            if table.manifest["complete"]:
                return table
    return None


def _compute(
    path: Path,
    queries: Entries,
    what: Retrieval,
    search: Blocks,
    rows: int,
) -> Table:
    columns = {
        "id": ColumnType("<i4" if rows < 1 << 31 else "<i8", what.k),
        "score": ColumnType("<f4", what.k),
    }
    label = f"search {what.key}-{what.metric} {what.search_name} ({what.score} scores)"
    with write_lock(path), TableWriter(path, KIND, columns, {"k": what.k}) as writer:
        with ProgressBar(label, queries.count, "queries", start=writer.rows) as meter:
            for start in range(writer.rows, queries.count, _SLAB):
                near = search(start, start + _SLAB)
                writer.append({"id": near.ids, "score": near.scores})
                writer.commit()
                meter.advance(len(near.ids))
        writer.finish({})
    return open_table(path, KIND)
