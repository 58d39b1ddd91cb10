"""The work that rows share, done once: LMs trained, texts read, stores derived, indexes built,
neighbours searched.

    WORK/lm/<name>                 a base LM, with the checkpoints its preset keeps
    WORK/states/<lm>[@step]/…      store, valid, test: what that LM saw
    WORK/derived/…                 parts of stores, zero rows, normalised or reduced states
    WORK/soft/<lm>[@step]          what neighbours elsewhere say of a store's rows
    WORK/learned/…                 what was learned from a store (apprentice.py)

Everything is opened if it is there and continued if it was interrupted. Knows arms; knows nothing
of recipes, and chooses no τ or λ."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knnlm.components.knn import NeighborBlocks, TargetVotes
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.datastore.table import Table
from knnlm.evaluation.metrics import evenly_spaced
from knnlm.files import fingerprint, read_json
from knnlm.models.load import LanguageModel, load_model
from knnlm.paper import scores
from knnlm.paper.derive import derive, normalized, principal_components, subsample, zero_rows
from knnlm.paper.other_states import other_state
from knnlm.paper.rows import Arm
from knnlm.paper.scales import Scale, Texts
from knnlm.search.cache import cached_neighbors
from knnlm.search.exact import exact_search
from knnlm.search.index import Index, build_index
from knnlm.search.neighbors import Neighbors, recall
from knnlm.search.retrieval import Retrieval
from knnlm.training.language_model import CHECKPOINTS, RECORD, Teacher, train
from knnlm.training.soft_targets import soft_targets

_RECALL_QUERIES = 512


class Material(NamedTuple):
    """A store and the queries of both splits, and which of their states is meant."""

    store: Entries
    valid: Entries
    test: Entries
    key: str

    def queries(self, split: str) -> Entries:
        """Of "valid" or "test"."""
        return self.valid if split == "valid" else self.test


class Search(NamedTuple):
    """What one search depends on; arms that agree in it share the search, whatever else they do
    with it."""

    lm: str
    step: int | None
    state: str
    metric: str
    mask: str
    factory: str | None
    nprobe: int | None
    fraction: float
    draw: int
    zeros: float
    width: int | None


def search_of(arm: Arm) -> Search:
    """The search that an arm needs. Exact neighbours among zero rows follow from those without
    them."""
    exact = arm.mask == "exact"
    return Search(
        arm.lm,
        arm.step,
        arm.state,
        arm.metric,
        arm.mask,
        None if exact else arm.factory,
        None if exact else arm.nprobe,
        arm.fraction,
        arm.draw,
        0.0 if exact else arm.zeros,
        arm.width,
    )


class Workshop:
    """Does the shared work of arms inside one folder; `counts` says how many neighbours each search
    must find, and `teachers` what an LM learns that learns from another."""

    def __init__(
        self,
        scale: Scale,
        texts: Texts,
        folder: Path,
        counts: Mapping[Search, int],
        teachers: "Callable[[Workshop, Any], Teacher]",
    ) -> None:
        self.teachers = teachers
        self.training = 0.0
        """Seconds spent on training LMs."""
        self._taught: dict[str, Teacher] = {}
        self.scale, self.texts, self.folder, self.counts = scale, texts, folder, counts
        self._model: tuple[tuple[str, int | None], LanguageModel] | None = None
        self._materials: dict[Any, Material] = {}
        self._index: tuple[Any, Index] | None = None
        self._recalls: dict[tuple[Search, int], float] = {}
        self._truths: dict[Any, Neighbors] = {}

    def model(self, name: str, step: int | None) -> LanguageModel:
        """A base LM, trained if it is not; the last one asked for stays open."""
        if self._model is None or self._model[0] != (name, step):
            other = self.scale.other(name)
            opened = self._trained(name, step) if other is None else load_model(other.source)
            self._model = ((name, step), opened)
        return self._model[1]

    def _trained(self, name: str, step: int | None) -> LanguageModel:
        lm, path = self.scale.lm(name), self.folder / "lm" / name
        begin = None if lm.begin is None else self.model(lm.begin, None)
        if lm.teacher is not None and lm.teacher not in self._taught:
            self._taught[lm.teacher] = self.teachers(self, lm.teacher)
        teacher = None if lm.teacher is None else self._taught[lm.teacher]
        began = time.monotonic()
        try:
            train(
                self.texts.train,
                self.texts.stop,
                lm.preset,
                path,
                seed=lm.seed,
                initial_model=begin,
                teacher=teacher,
            )
        finally:
            self.training += time.monotonic() - began
        return load_model(path if step is None else path / CHECKPOINTS / str(step))

    def about(self, name: str, step: int | None) -> dict[str, float | None]:
        """What is known of an LM and its training; perplexities are those of the updates before
        `step` (with whatever dropout it has; none of an LM that learned from soft labels) and of
        the validation text that training looked at."""
        if self.scale.other(name) is not None:
            return {"parameters": sum(p.numel() for p in self.model(name, step).model.parameters())}
        record = read_json(self.folder / "lm" / name / RECORD)
        at = record["trained"]["best_step"] if step is None else step
        point = next(entry for entry in record["history"] if entry["step"] == at)
        return {
            "parameters": record["trained"]["parameters"],
            "width": record["preset"]["width"],
            "train_tokens": record["trained"]["train_tokens"],
            "steps": record["trained"]["steps"],
            "step": at,
            "train_ppl": math.exp(point["train_loss"])
            if self.scale.lm(name).teacher is None
            else None,
            "valid_ppl": math.exp(point["valid_loss"]),
        }

    def training_seconds(self, name: str) -> int:
        """How long an LM was trained here."""
        if self.scale.other(name) is not None:
            return 0
        record = read_json(self.folder / "lm" / name / RECORD)
        preset = record["preset"]
        tokens = preset["steps"] * preset["batch"] * preset["context"]
        return round(tokens / record["trained"]["tokens_per_second"])

    def material(self, arm: Arm) -> Material:
        """The store and queries of an arm, without the zero rows that only its index may see."""
        what = (arm.lm, arm.step, arm.state, arm.fraction, arm.draw, arm.width)
        if what not in self._materials:
            self._materials[what] = self._derived(arm, self._states(arm))
        return self._materials[what]

    def plain(self, lm: str, step: int | None) -> Material:
        """att and ffn of an LM as they are."""
        return self.material(Arm(lm=lm, step=step))

    def neighbors(self, arm: Arm, split: str) -> NeighborBlocks:
        """The arm's neighbours of a split's queries, with the arm's scores, best first."""
        m = self.material(arm)
        queries = m.queries(split)
        states = queries.key(m.key)
        if arm.mask == "exact":
            found: NeighborBlocks = self._found(
                m.store, queries, self._retrieval(arm, m.key, None), arm
            )
            if arm.zeros:
                found = scores.with_zeros(
                    found, states, arm.metric, zero_rows(m.store.count, arm.zeros), m.store.count
                )
            if arm.score == "faiss":
                return scores.decoded(found, states, self.index(arm, m.store, m.key))
        else:
            store = self._contaminated(arm, m)
            index = self.index(arm, store, m.key)
            what = self._retrieval(arm, m.key, index.name)
            if arm.score == "real":
                self._found(
                    store, queries, what, arm
                )  # so that the search, of as many as needed, is done first
                return cached_neighbors(store, queries, replace(what, score="exact"))
            found = self._found(store, queries, what, arm)
        if arm.score == "half":
            return scores.half(found, states, m.store.key(m.key), arm.metric)
        return scores.flipped(found) if arm.score == "flipped" else found

    def votes(self, arm: Arm, split: str) -> TargetVotes:
        """The votes of the arm's neighbours for the true tokens; a zero row votes for token 0."""
        m = self.material(arm)
        tokens = self._contaminated(arm, m).targets if arm.zeros else m.store.targets
        return TargetVotes(self.neighbors(arm, split), tokens, m.queries(split).targets)

    def elsewhere(self, lm: str, step: int | None, tau: float) -> Table:
        """What the neighbours in other documents say of every stored row (att and L2, all of them
        looked at)."""
        out = self.folder / "soft" / _folder(lm, step)
        return soft_targets(self.plain(lm, step).store, "att", "l2", self.scale.k, tau, out)

    def recall(self, arm: Arm) -> float | None:
        """Share of the true neighbours that the arm's mask holds, on some queries of the test text;
        None where the truth is not one thing: zero rows tie with each other."""
        if arm.mask == "exact" or arm.zeros:
            return 1.0 if arm.mask == "exact" else None
        what = (search_of(arm), arm.k)
        if what not in self._recalls:
            m = self.material(arm)
            rows = evenly_spaced(m.test.count, _RECALL_QUERIES)
            of = (m.store.fingerprint, m.key, arm.metric, arm.k)
            if of not in self._truths:
                self._truths[of] = exact_search(
                    m.test.key(m.key).gather(rows), m.store.key(m.key), arm.k, arm.metric
                )
            found = self.neighbors(replace(arm, score="faiss"), "test")
            near = [found.read(row, row + 1).ids[0] for row in rows]
            self._recalls[what] = recall(
                Neighbors(np.stack(near), self._truths[of].scores), self._truths[of]
            )
        return self._recalls[what]

    def index(self, arm: Arm, store: Entries, key: str) -> Index:
        """The arm's index of a store; however poor its recall, since that is what is studied. The
        last one asked for stays open."""
        what = (store.fingerprint, key, arm.metric, arm.factory, arm.nprobe)
        if self._index is None or self._index[0] != what:
            index = build_index(
                store, key, arm.metric, factory=arm.factory, nprobe=arm.nprobe, recall_floor=0.0
            )
            self._index = (what, index)
        return self._index[1]

    def _states(self, arm: Arm) -> Material:
        """What the arm's LM saw; att and ffn together, other states in a store of their own."""
        other = arm.state if arm.state in ("att-raw", "att-earlier") else ""
        store = self.read(arm.lm, arm.step, "store", other)
        valid, test = self.queries(arm.lm, arm.step, other)
        return Material(store, valid, test, key="ffn" if arm.state.startswith("ffn") else "att")

    def read(self, lm: str, step: int | None, split: str, other: str = "") -> Entries:
        """What an LM saw in the whole text of "store", "valid" or "test"; `other` is a state in the
        place of att."""
        opened = self.model(lm, step)
        text = {"store": self.texts.train, "valid": self.texts.valid, "test": self.texts.test}[
            split
        ]
        return build_entries(
            opened,
            text,
            self.folder / "states" / _folder(lm, step, other) / split,
            keys=("att",) if other else None,
            replace_att=other_state(opened.model, other) if other else None,
            logprobs=split != "store",
        )

    def queries(self, lm: str, step: int | None, other: str = "") -> tuple[Entries, Entries]:
        """The tokens of the validation and of the test text that are searched for: the same ones
        for every LM that is trained here, since all share their tokenizer."""
        valid, test = (
            self._sampled(self.read(lm, step, split, other), split, _folder(lm, step, other))
            for split in ("valid", "test")
        )
        return valid, test

    def _sampled(self, queries: Entries, split: str, name: str) -> Entries:
        count = self.scale.eval_rows
        if count is None or count >= queries.count:
            return queries
        rows = subsample(queries.count, count / queries.count, draw=0)
        out = self.folder / "states" / name / f"{split}-{count}"
        return derive(queries, out, queries.keys, {"rows": count, "draw": 0}, rows=rows)

    def _derived(self, arm: Arm, m: Material) -> Material:
        if arm.state == "ffn-normed":
            m = self._all(m, {"change": "LayerNorm"}, change=normalized)
        if arm.width is not None:
            change = principal_components(m.store, m.key, arm.width)
            note = {"change": "principal components", "width": arm.width}
            m = self._all(m, note, change=change, width=arm.width)
        if arm.fraction < 1:
            rows = subsample(m.store.count, arm.fraction, arm.draw)
            note = {"fraction": arm.fraction, "draw": arm.draw}
            m = m._replace(store=self._derive(m, "store", note, rows=rows))
        return m

    def _all(self, m: Material, note: dict[str, Any], **how: Any) -> Material:
        """The same done to store and queries."""
        store, valid, test = (
            self._derive(m, split, note, **how) for split in ("store", "valid", "test")
        )
        return Material(store, valid, test, m.key)

    def _contaminated(self, arm: Arm, m: Material) -> Entries:
        if not arm.zeros:
            return m.store
        return self._derive(
            m, "store", {"zeros": arm.zeros}, zeros=zero_rows(m.store.count, arm.zeros)
        )

    def _derive(self, m: Material, split: str, note: dict[str, Any], **how: Any) -> Entries:
        source: Entries = getattr(m, split)
        name = fingerprint({"from": source.fingerprint, "key": m.key, "note": note})[:16]
        return derive(source, self.folder / "derived" / name, (m.key,), note, **how)

    def _retrieval(self, arm: Arm, key: str, index: str | None) -> Retrieval:
        return Retrieval(key=key, metric=arm.metric, index=index, score="index", k=arm.k)

    def _found(self, store: Entries, queries: Entries, what: Retrieval, arm: Arm) -> NeighborBlocks:
        """The search itself, for as many neighbours as any row needs; then the head that this arm
        needs."""
        most = max(arm.k, self.counts.get(search_of(arm), 0))
        cached_neighbors(store, queries, replace(what, k=most))
        return cached_neighbors(store, queries, what)


def _folder(lm: str, step: int | None, other: str = "") -> str:
    return lm + (f"@{step}" if step is not None else "") + (f"+{other}" if other else "")
