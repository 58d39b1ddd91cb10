"""The work that conditions share, done once: texts read by LMs (lms.py), datastores derived,
indexes built, neighbors searched.

    WORK/lm/<name>                 a base LM, with the checkpoints that its preset keeps
    WORK/states/<lm>[@step]/…      store, valid, test: the entries of each text under that LM
    WORK/derived/…                 parts of datastores, zero entries, changed states
    WORK/clocks/…                  seconds spent on conditions that were interrupted

Everything is opened if it is there and continued if it was interrupted. A workspace chooses no τ
and no λ: conditions do."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knnlm import defaults
from knnlm.components import KNN, Logs
from knnlm.datastore import Entries, build_entries, evenly_spaced
from knnlm.disk import remove_folder
from knnlm.errors import DamagedError
from knnlm.evaluation import Control, control_logprobs, fit_control
from knnlm.experiments.derive import (
    derive,
    normalized,
    principal_components,
    subsample,
)
from knnlm.experiments.lms import LMs
from knnlm.experiments.searches import NORMALIZED, SearchSpec, check_search, zero_entries
from knnlm.experiments.texts import Texts
from knnlm.files import fingerprint
from knnlm.hidden_states import AttLocation
from knnlm.progress import log
from knnlm.search import (
    CachedNeighbors,
    Index,
    Neighbors,
    Retrieval,
    Score,
    build_index,
    cached_neighbors,
    exact_search,
    paper_factory,
    recall,
)

STORE, VALID, TEST = "store", "valid", "test"
_RECALL_QUERIES = 512


class SearchData(NamedTuple):
    """A datastore, the queries of both texts, and which of their states is meant."""

    store: Entries
    valid: Entries
    test: Entries
    key: str

    def queries(self, split: str) -> Entries:
        """Those of "valid" or "test"."""
        return self.valid if split == VALID else self.test


class ControlData(NamedTuple):
    """The calibrated LM on the validation text, and log p of the test text's tokens under it."""

    valid: Control
    test: Logs


class Workspace:
    """Does the shared work of conditions inside one folder.

    Args:
        folder: Where the work is kept.
        texts: What is stored, tuned on and reported on.
        lms: The LMs that conditions name, trained when they are first needed.
        largest_k: How many neighbors each search must find to serve all conditions
            (`searches.largest_k`); a condition that asks for fewer reads the first of them.
        queries: Tokens of the validation and of the test text that are searched for, drawn at
            random; None is all. Each has all the context that its text gives it.
        other_states: Where states other than att and ffn are in a model.
        entries_folder: Where the entries of (LM and state, "store", "valid" or "test") are kept, if
            not in WORK/states.
    """

    def __init__(
        self,
        folder: Path,
        texts: Texts,
        lms: LMs,
        *,
        largest_k: Mapping[SearchSpec, int] | None = None,
        queries: int | None = None,
        other_states: Mapping[str, Callable[[Any], AttLocation]] | None = None,
        entries_folder: Callable[[str, str], Path] | None = None,
    ) -> None:
        self.folder, self.texts, self.lms = folder, texts, lms
        self.largest_k = largest_k or {}
        self._query_count, self._other_states = queries, other_states or {}
        self._entries_folder = entries_folder or (lambda lm, split: folder / "states" / lm / split)
        self._data: dict[Any, SearchData] = {}
        self._index: tuple[Any, Index] | None = None
        self._index_names: dict[SearchSpec, str | None] = {}
        self._recalls: dict[tuple[SearchSpec, int], float] = {}
        self._exact: dict[Any, Neighbors] = {}
        self._controls: dict[Any, ControlData] = {}

    def entries(self, lm: str, step: int | None, split: str, other_state: str = "") -> Entries:
        """What an LM saw in the whole text of "store", "valid" or "test".

        Queries are checked against their checksums and read again if they are damaged; a datastore
        is checked where it is searched.

        Args:
            lm: The name of the LM.
            step: The update at which it was kept.
            split: Which text.
            other_state: A state to read instead of att; att and ffn are read together."""
        out = self._entries_folder(_folder(lm, step, other_state), split)
        if split == STORE:
            return self._read(lm, step, split, other_state, out)
        try:
            queries = self._read(lm, step, split, other_state, out)
            queries.verify()
        except DamagedError as error:
            log.warning(f"{error}; reading the text again")
            remove_folder(out, below=out.parent)
            queries = self._read(lm, step, split, other_state, out)
        return queries

    def queries(
        self, lm: str, step: int | None = None, other_state: str = ""
    ) -> tuple[Entries, Entries]:
        """The tokens of the validation and of the test text that are searched for: the same ones
        for every LM that is trained here, because they share their tokenizer."""
        return self._drawn(lm, step, VALID, other_state), self._drawn(lm, step, TEST, other_state)

    def data(self, spec: SearchSpec) -> SearchData:
        """The datastore and queries of a search, without the zero entries of `spec.zeros`."""
        wanted = (*spec.checkpoint, spec.state, spec.fraction, spec.draw, spec.width)
        if wanted not in self._data:
            check_search(spec, self._other_states)
            store = self.entries(*spec.checkpoint, STORE, spec.other_state)
            valid, test = self.queries(*spec.checkpoint, spec.other_state)
            self._data[wanted] = self._derived(spec, SearchData(store, valid, test, spec.key))
        return self._data[wanted]

    def control(self, spec: SearchSpec) -> ControlData:
        """The calibrated LM of a search, without any neighbors: what they are compared with."""
        wanted = (*spec.checkpoint, spec.fraction, spec.draw)
        if wanted not in self._controls:
            store, model = self.data(spec).store, self.lms.model(*spec.checkpoint).model
            valid, test = self.queries(*spec.checkpoint)
            control = fit_control(model, store, valid)
            t, u, _ = control.calibration
            self._controls[wanted] = ControlData(
                control, control_logprobs(model, store, test, t, u)
            )
        return self._controls[wanted]

    def searched(self, spec: SearchSpec) -> Entries:
        """The datastore of a search, with its zero entries."""
        data = self.data(spec)
        if not spec.zeros:
            return data.store
        zeros = zero_entries(data.store.count, spec.zeros)
        return self._derive(data.store, data.key, {"zeros": spec.zeros}, zeros=zeros)

    def _read(self, lm: str, step: int | None, split: str, other_state: str, out: Path) -> Entries:
        opened = self.lms.model(lm, step)
        text = {STORE: self.texts.train, VALID: self.texts.valid, TEST: self.texts.test}[split]
        return build_entries(
            opened,
            text,
            out,
            keys=("att",) if other_state else None,
            replace_att=self._other_states[other_state](opened.model) if other_state else None,
            logprobs=split != STORE,
        )

    def _drawn(self, lm: str, step: int | None, split: str, other_state: str) -> Entries:
        whole, count = self.entries(lm, step, split, other_state), self._query_count
        if count is None or count >= whole.count:
            return whole
        ids = subsample(whole.count, count / whole.count, draw=0)
        out = self._entries_folder(_folder(lm, step, other_state), f"{split}-{count}")
        return derive(whole, out, whole.keys, {"rows": count, "draw": 0}, ids=ids)

    def _derived(self, spec: SearchSpec, data: SearchData) -> SearchData:
        if spec.state.endswith(NORMALIZED):
            data = self._all(data, {"change": "LayerNorm"}, change=normalized)
        if spec.width is not None:
            change = principal_components(data.store, data.key, spec.width)
            note = {"change": "principal components", "width": spec.width}
            data = self._all(data, note, change=change, width=spec.width)
        if spec.fraction < 1:
            ids = subsample(data.store.count, spec.fraction, spec.draw)
            note = {"fraction": spec.fraction, "draw": spec.draw}
            data = data._replace(store=self._derive(data.store, data.key, note, ids=ids))
        return data

    def _all(self, data: SearchData, note: dict[str, Any], **how: Any) -> SearchData:
        """The same done to datastore and queries."""
        store, valid, test = (
            self._derive(entries, data.key, note, **how)
            for entries in (data.store, data.valid, data.test)
        )
        return SearchData(store, valid, test, data.key)

    def _derive(self, source: Entries, key: str, note: dict[str, Any], **how: Any) -> Entries:
        name = fingerprint({"from": source.fingerprint, "key": key, "note": note})[:16]
        return derive(source, self.folder / "derived" / name, (key,), note, **how)

    def index(self, spec: SearchSpec) -> Index:
        """The index of a search, however low its recall: that is part of what is studied. The last
        one asked for stays open."""
        store, key, nprobe = self.searched(spec), spec.key, spec.nprobe or defaults.NPROBE
        factory = spec.factory or paper_factory(store.count, store.key(key).type.width)
        wanted = (store.fingerprint, key, spec.metric, factory, nprobe)
        if self._index is None or self._index[0] != wanted:
            index = build_index(store, key, spec.metric, factory=factory, nprobe=nprobe, recall=0)
            self._index = (wanted, index)
        return self._index[1]

    def retrieval(self, spec: SearchSpec, k: int, score: Score = "index") -> Retrieval:
        """A search as the datastore that is searched knows it; its index is built if it is not."""
        if spec not in self._index_names:
            self._index_names[spec] = None if spec.exact else self.index(spec).name
        index = self._index_names[spec]
        return Retrieval(key=spec.key, metric=spec.metric, index=index, score=score, k=k)

    def neighbors(
        self, spec: SearchSpec, split: str, k: int, score: Score = "index"
    ) -> CachedNeighbors:
        """The k best neighbors of a text's queries, best first. The search itself is for as many as
        any condition needs, and is done once.

        Args:
            spec: The search.
            split: "valid" or "test".
            k: How many neighbors.
            score: "index" for the scores that the search returned, "exact" for similarities to the
                stored states; exact search returns no others."""
        store, queries = self.searched(spec), self.data(spec).queries(split)
        retrieval = self.retrieval(spec, k)
        cached_neighbors(store, queries, replace(retrieval, k=max(k, self.largest_k.get(spec, 0))))
        return cached_neighbors(store, queries, replace(retrieval, score=score))

    def knn(self, spec: SearchSpec, k: int) -> KNN:
        """The k best neighbors as a component at τ = 1, both texts searched."""
        for split in (VALID, TEST):
            self.neighbors(spec, split, k)
        return KNN(self.searched(spec), self.retrieval(spec, k))

    def recall(self, spec: SearchSpec, k: int) -> float | None:
        """recall@k on some queries of the test text; None for an index with zero entries, which
        tie with each other."""
        if spec.exact or spec.zeros:
            return 1.0 if spec.exact else None
        if (spec, k) not in self._recalls:
            data = self.data(spec)
            some = evenly_spaced(data.test.count, _RECALL_QUERIES)
            wanted = (data.store.fingerprint, data.key, spec.metric, k)
            if wanted not in self._exact:
                self._exact[wanted] = exact_search(
                    data.test.key(data.key).gather(some), data.store.key(data.key), k, spec.metric
                )
            exact, near = self._exact[wanted], self.neighbors(spec, TEST, k)
            ids = np.stack([near.read(query, query + 1).ids[0] for query in some])
            self._recalls[spec, k] = recall(Neighbors(ids, exact.scores), exact)
        return self._recalls[spec, k]


def _folder(lm: str, step: int | None, other_state: str = "") -> str:
    return (
        lm + (f"@{step}" if step is not None else "") + (f"+{other_state}" if other_state else "")
    )
