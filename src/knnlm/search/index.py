"""A FAISS index of one key, open for search (index_building.py makes it).

FAISS detects neither a flipped bit nor a wrong metric nor a forgotten nprobe; the manifest does, so
an index that is not what it claims to be is refused when it is opened.
"""

import math
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column, Entries, Survivors
from knnlm.errors import DamagedError
from knnlm.ranges import check_k, check_path
from knnlm.search.exact import exact_search, with_exact_scores
from knnlm.search.factory import augmented_width
from knnlm.search.faiss_index import (
    as_indexed_queries,
    faiss_metric,
    set_nprobe,
)
from knnlm.search.index_records import (
    how_to_rebuild,
    index_file,
    index_manifest,
    is_refined,
)
from knnlm.search.neighbors import MISSING, Neighbors, merge, top_k
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
        keys: The stored states of the table's rows, which candidates are scored from.
        survivors: Which rows are left; None: all.
        later: The states of entries that the index does not cover: the last ones.
    """

    name: str
    manifest: dict[str, Any]
    faiss: Any
    keys: Column
    survivors: Survivors | None = None
    later: Column | None = None

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
        ids = np.empty((len(asked), k), np.int64)
        scores = np.empty((len(asked), k), np.float32)
        for start in range(0, len(asked), _SEARCHED_AT_ONCE):
            block = slice(start, start + _SEARCHED_AT_ONCE)
            near = self._candidates(asked[block], self._wanted(k))
            if self.refined:
                near = with_exact_scores(near, asked[block], self.keys, self.metric, k)
            else:
                near = top_k(near.ids, near.scores, k)
            ids[block], scores[block] = near
        near = Neighbors(ids, scores)
        if self.survivors is not None:
            near = Neighbors(self.survivors.entry_of(ids), scores)
        return near if self.later is None else merge(near, self._later(asked, k), k)

    def _later(self, asked: NDArray[np.float32], k: int) -> Neighbors:
        """The nearest of the entries that the index does not cover."""
        assert self.later is not None
        near = exact_search(asked, self.later, k, self.metric)
        entries = len(self.keys) if self.survivors is None else self.survivors.entry_count
        ids = np.where(near.ids < 0, MISSING, near.ids + entries - len(self.later))
        return Neighbors(ids, near.scores)

    def _wanted(self, k: int) -> int:
        """How many candidates a search for k looks at."""
        if not self.refined:
            return k
        wanted = max(k * int(self.manifest["refine"]), _LEAST_CANDIDATES)
        return max(k, min(wanted, self.faiss.ntotal))

    def _candidates(self, asked: NDArray[np.float32], wanted: int) -> Neighbors:
        """So many rows that are left, with the scores of the index; fewer where the visited lists
        hold no more. Forgotten rows are found too and left out, so more are asked for."""
        padded, count = as_indexed_queries(asked, self.faiss.d), wanted
        if self.survivors is not None:
            share = self.survivors.entry_count / self.survivors.rows
            count = min(math.ceil(wanted / share), self.faiss.ntotal)
        values, rows = self.faiss.search(padded, count)
        scores = from_distance(self.metric, values)
        if self.survivors is None:
            return Neighbors(rows, scores)
        left = self.survivors.entry_of(rows) >= 0
        near = top_k(np.where(left, rows, MISSING), scores, wanted)
        more = np.flatnonzero((left.sum(axis=1) < wanted) & (rows[:, -1] >= 0))
        if len(more) and count < self.faiss.ntotal:
            for query in more:
                found = self._more_candidates(padded[[query]], count, wanted)
                near.ids[query], near.scores[query] = found
        return near

    def _more_candidates(self, padded: NDArray[np.float32], count: int, wanted: int) -> Neighbors:
        """The same for one query whose nearest rows were forgotten more often than others."""
        while True:
            count = min(2 * count, self.faiss.ntotal)
            values, rows = self.faiss.search(padded, count)
            assert self.survivors is not None
            left = self.survivors.entry_of(rows) >= 0
            if left.sum() >= wanted or rows[0, -1] < 0 or count == self.faiss.ntotal:
                scores = from_distance(self.metric, values)
                return top_k(np.where(left, rows, MISSING), scores, wanted)


def open_index(store: Entries, name: str) -> Index:
    """Open an index after checking that it is whole and belongs to this datastore.

    Raises:
        KnnlmError: There is no such index, or the datastore has changed since it was built.
        DamagedError: The file is not what was written.
    """
    check_path(store.path)
    manifest, file = index_manifest(store, name), index_file(store, name)
    rows = store.table.columns[manifest["key"]]
    try:
        index = faiss.read_index(str(file))
    except RuntimeError:
        index = None
    if index is None or not _fits(index, manifest, rows.type.width):
        raise DamagedError(
            f"{file} is not the index that its manifest describes: delete {file.parent} and "
            f"{how_to_rebuild(manifest)}"
        )
    if is_refined(manifest) or index.ntotal < store.table.rows:
        rows.verify()  # now, not in the middle of a text
    return _opened(store, name, manifest, index)


def _fits(index: Any, manifest: dict[str, Any], width: int) -> bool:
    """Whether an index has the metric, width and rows that its manifest names."""
    augmented = manifest.get("augmented", False)
    metric = checked_metric("l2" if augmented else manifest["metric"])
    right_metric = index.metric_type == faiss_metric(metric)
    right_width = index.d == (augmented_width(width) if augmented else width)
    return bool(right_metric and right_width and index.ntotal == manifest["rows"])


def _opened(store: Entries, name: str, manifest: dict[str, Any], index: Any) -> Index:
    """Which rows are left, and which entries came later, beside the index itself."""
    key, survivors, rows = manifest["key"], store.survivors, int(manifest["rows"])
    nprobe, first = int(manifest["nprobe"]), survivors.first_from(rows)
    # lists hold as many fewer entries that are left
    set_nprobe(index, math.ceil(nprobe * survivors.rows / max(survivors.entry_count, 1)))
    later = store.key(key).slices([(first, store.count - first)]) if first < store.count else None
    left = survivors if store.forgotten else None
    return Index(name, manifest, index, store.table.columns[key], left, later)
