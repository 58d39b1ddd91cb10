"""What a run would do, how long it would take and how much disk it needs; nothing is run.

Work is counted in operations (multiplications and additions) and divided by this machine's speed at
multiplying matrices, measured for a moment, with one factor for each kind of work that says how far
from that speed it runs. The factors were measured at the laptop scale on two cores; treat times as
good to a factor of two. A machine with GPUs is as much faster as its matrix products are (`speed`).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from knnlm.paper.apprentice import first_of_family
from knnlm.paper.derive import zero_rows
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Combined, Learned, Listed, Reach, Row, Temperatures, Unmasked, lms_of
from knnlm.paper.runner import most_neighbours
from knnlm.paper.scales import Scale
from knnlm.paper.workshop import Search, search_of
from knnlm.search.factory import default_factory
from knnlm.training.clustering import POINTS, ROUNDS
from knnlm.training.soft_targets import KEPT

# Operations of a matrix product in the time that one operation of this work takes.
_SLOWER = {
    "train": 1.6,
    "build": 1.3,
    "exact": 1.8,
    "kmeans": 1.0,
    "lookup": 45.0,
    "softmax": 1000.0,
    "exponential": 60.0,
}
_KMEANS_ROUNDS = 25
_OVERLAP = 2  # windows overlap by half
_TAUS = 50  # passes over the neighbours for each row, about
_TAUS_LEARNED = 25  # of a substitute, over the LM and over the calibrated one
_TEMPERATURES = 80
_TAUS_UNMASKED = 9
_REACH_ROUNDS = 10  # in which the words that are left become fewer


class Step(NamedTuple):
    """One piece of work."""

    kind: str
    what: str
    seconds: float
    bytes: int


class Plan(NamedTuple):
    """All of it. `speed` is in operations per second."""

    steps: tuple[Step, ...]
    rows: int
    speed: float

    @property
    def seconds(self) -> float:
        """In all."""
        return sum(step.seconds for step in self.steps)

    @property
    def bytes(self) -> int:
        """In all, on disk."""
        return sum(step.bytes for step in self.steps)


def plan(rows: Iterable[Row], scale: Scale, speed: float | None = None) -> Plan:
    """The steps that these rows need, each once."""
    chosen = list(rows)
    speed = speed or matrix_speed()
    searches = most_neighbours(chosen, scale)
    states = {
        (s.lm, s.step, s.state if s.state in ("att-raw", "att-earlier") else "") for s in searches
    }
    states |= {(*row.lm, "") for row in chosen if not isinstance(row, Reach)}
    ordered = sorted(states, key=lambda what: (what[0], what[1] or 0, what[2]))
    further = sorted(
        {lm for row in chosen for lm in lms_of(row)} - {(lm, step) for lm, step, _ in ordered},
        key=lambda what: (what[0], what[1] or 0),
    )
    names = [*(lm for lm, _, _ in ordered), *(lm for lm, _ in further)]
    read = [
        lm
        for lm in further
        if any(lm in lms_of(row) for row in chosen if not isinstance(row, Reach))
    ]
    steps = [
        *_lms(names, scale),
        *_stores(ordered, scale),
        *_texts(read, scale),
        *_derived(searches, scale),
    ]
    for search, k in searches.items():
        if search.mask == "faiss":
            steps.append(_index(search, scale))
        steps.append(_search(search, k, scale))
    steps += _learning(chosen, scale)
    steps += [_reach(row, scale) for row in chosen if isinstance(row, Reach)]
    steps += [_unmasked(row, scale) for row in chosen if isinstance(row, Unmasked)]
    steps.append(_measuring(chosen, scale))
    timed = (s._replace(seconds=s.seconds / speed) for s in steps)
    return Plan(tuple(timed), len(chosen), speed)


def matrix_speed(size: int = 768, seconds: float = 0.3) -> float:
    """Operations per second of fp32 matrix products here."""
    a = np.ones((size, size), np.float32)
    rounds, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        a @ a
        rounds += 1
    return 2 * size**3 * rounds / (time.monotonic() - began)


def _parameters(scale: Scale, lm: str) -> tuple[int, int]:
    """(those of the blocks, those of one embedding)."""
    shape = scale.shape(lm)
    return 12 * shape.layers * shape.width**2, shape.vocab_size * shape.width


def _lms(names: Iterable[str], scale: Scale) -> list[Step]:
    found = []
    for name in dict.fromkeys(name for name in names if scale.other(name) is None):
        p = scale.lm(name).preset
        blocks, embedding = _parameters(scale, name)
        tokens = p.steps * p.batch * p.context
        size = 4 * (blocks + (1 + p.embeddings) * embedding)
        kept = size * (
            5 + 2 * len(p.keep)
        )  # weights, best, last with two moments, and each checkpoint twice
        found.append(
            Step(
                "train",
                f"{name}: {p.steps:,} updates of {p.batch} × {p.context} tokens",
                _SLOWER["train"] * 6 * (blocks + p.embeddings * embedding) * tokens,
                kept,
            )
        )
    return found


def _stores(wanted: Iterable[tuple[str, int | None, str]], scale: Scale) -> list[Step]:
    """Stores of (LM, update, state other than att and ffn)."""
    found = []
    for lm, step, other in wanted:
        rows = sum(scale.sizes)
        keys = 1 if other else 2
        name = (
            lm
            + (f" at update {step:,}" if step is not None else "")
            + (f", {other}" if other else "")
        )
        width = scale.shape(lm).width
        blocks, _ = _parameters(scale, lm)
        found.append(
            Step(
                "build",
                f"{name}: {rows:,} rows of {width}",
                _SLOWER["build"] * 2 * _OVERLAP * blocks * rows,
                rows * (2 * keys * width + 12),
            )
        )
    return found


def _texts(wanted: Iterable[tuple[str, int | None]], scale: Scale) -> list[Step]:
    """Validation and test text read by LMs that need no store."""
    found = []
    for lm, step in wanted:
        rows, width = scale.sizes.valid + scale.sizes.test, scale.shape(lm).width
        name = lm + (f" at update {step:,}" if step is not None else "")
        work = _SLOWER["build"] * 2 * _OVERLAP * _parameters(scale, lm)[0] * rows
        found.append(
            Step(
                "build",
                f"{name}: {rows:,} rows of {width}, no store",
                work,
                rows * (4 * width + 12),
            )
        )
    return found


def _derived(searches: Iterable[Search], scale: Scale) -> list[Step]:
    found: dict[str, Step] = {}
    for s in searches:
        rows, width = rows_of(s, scale), s.width or scale.shape(s.lm).width
        changed = s.state == "ffn-normed" or s.width is not None
        if changed or s.fraction < 1 or s.zeros:
            parts = [f"{s.lm} {s.state}"]
            parts += [f"{s.width} components"] if s.width else []
            parts += [f"{s.fraction:.0%} of the rows, draw {s.draw}"] if s.fraction < 1 else []
            parts += [f"{s.zeros:.0%} zero rows"] if s.zeros else []
            what = ", ".join(parts)
            found[what] = Step("derive", what, 0.0, rows * (2 * width + 12))
    return list(found.values())


def rows_of(search: Search, scale: Scale) -> int:
    """Rows of the store that is searched."""
    rows = round(scale.sizes.train * search.fraction)
    return rows + (zero_rows(rows, search.zeros) if search.zeros else 0)


def _index(search: Search, scale: Scale) -> Step:
    rows, width = rows_of(search, scale), search.width or scale.shape(search.lm).width
    factory = search.factory or default_factory(rows, width)
    lists, code = _factory_numbers(factory, width)
    trained = min(rows, max(1 << 16, 256 * lists))
    work = (
        _SLOWER["kmeans"]
        * 2
        * width
        * (_KMEANS_ROUNDS * trained * (lists + 256) + rows * (lists + 256))
    )
    name = f"{search.lm} {search.state} {search.metric}: {factory}, {rows:,} rows"
    return Step("index", name, work, rows * (code + 8))


def _search(search: Search, k: int, scale: Scale) -> Step:
    rows, width = rows_of(search, scale), search.width or scale.shape(search.lm).width
    queries = scale.sizes.valid + scale.sizes.test
    name = f"{search.lm} {search.state} {search.metric} {search.mask}: {queries:,} queries, {rows:,} rows, k {k:,}"
    if search.mask == "exact":
        work = _SLOWER["exact"] * 2 * queries * rows * width
    else:
        lists, code = _factory_numbers(search.factory or default_factory(rows, width), width)
        probed = min(1.0, (search.nprobe or 1) / lists)
        work = _SLOWER["lookup"] * queries * rows * probed * code
    return Step("search", name, work, queries * k * 8)


def _factory_numbers(factory: str, width: int) -> tuple[int, int]:
    """(lists, bytes of a code) of a factory string."""
    lists, code = 1, 4 * width
    for part in factory.split(","):
        digits = "".join(c for c in part if c.isdigit())
        if part.startswith("IVF"):
            lists = int(digits)
        if part.startswith("PQ"):
            code = int(digits)
    return lists, code


def _learning(rows: Sequence[Row], scale: Scale) -> list[Step]:
    """Each substitute once, and once more for every other learning rate that is tried on the first
    of its family."""
    wanted = dict.fromkeys(
        part
        for row in rows
        for part in (row.parts if isinstance(row, Combined) else (row,))
        if isinstance(part, Learned)
    )
    found = [_learned(row, scale, 1) for row in wanted]
    others = len(scale.learning.rates)  # one beyond them, as a rule
    pilots = dict.fromkeys(first_of_family(row, scale) for row in wanted if row.fitted)
    found += [
        _learned(row, scale, others)._replace(what=f"{row.name}: {others} other rates")
        for row in pilots
    ]
    teachers = {row.lm for row in wanted if row.soft}
    if any(
        scale.other(lm) is None and scale.lm(lm).teacher == "knn-lm"
        for row in rows
        for lm, _ in lms_of(row)
    ):
        teachers.add(("main", None))
    for lm in sorted(teachers, key=str):
        arm = replace(exactly(paper_arm(scale, lm[0])), step=lm[1])
        teacher = _search(search_of(arm), arm.k, scale)
        times = scale.sizes.train / (scale.sizes.valid + scale.sizes.test)
        found.append(
            Step(
                "search",
                f"{lm[0]}: neighbours of all {scale.sizes.train:,} stored rows in other documents",
                teacher.seconds * times,
                scale.sizes.train * 6 * KEPT,
            )
        )
    return found


def _learned(row: Learned, scale: Scale, times: int) -> Step:
    _, embedding = _parameters(scale, row.of)
    width = scale.shape(row.of).width
    inside = 3 * row.size * width + 2 * width**2 if row.kind == "network" else 0
    numbers = inside + embedding * (1 if row.kind == "network" else row.size)
    rows = scale.sizes.train
    if row.kind == "clusters" and not row.fitted:
        count = scale.clusters(row.of, row.size)
        looked, numbers = min(rows, POINTS * count), count * width
        work = _SLOWER["kmeans"] * 2 * numbers * (ROUNDS * looked + rows)
    else:
        work = _SLOWER["train"] * 4 * numbers * rows * scale.learning.epochs
    work += _TAUS_LEARNED * 2 * numbers * scale.sizes.valid / times
    return Step("learn", row.name, times * work, round(times * 16 * numbers))


def _reach(row: Reach, scale: Scale) -> Step:
    """All words against all others, in fp64, until each was found reachable; programmes for a few
    are not counted."""
    shape = scale.shape(row.of)
    work = _REACH_ROUNDS * 2 * 2 * shape.vocab_size**2 * shape.width
    return Step("reach", f"{row.of}: {shape.vocab_size:,} words of {shape.width}", work, 0)


def _unmasked(row: Unmasked, scale: Scale) -> Step:
    """All scores of both texts, and their exponentials at every τ that is looked at closely."""
    rows, queries = scale.sizes.train, scale.sizes.valid + scale.sizes.test
    work = (
        queries * rows * (2 * scale.shape(row.of).width + _SLOWER["exponential"] * _TAUS_UNMASKED)
    )
    return Step("unmasked", f"{row.name}: {queries:,} tokens, {rows:,} rows", work, 0)


def _measuring(rows: Iterable[Row], scale: Scale) -> Step:
    chosen = list(rows)
    queries = scale.sizes.valid + scale.sizes.test
    work = queries * sum(
        _SLOWER["softmax"] * (_TEMPERATURES if isinstance(row, Temperatures) else _TAUS) * k
        for row in chosen
        for k in (
            *(arm.k for arm in row.arms),
            *((row.k,) if isinstance(row, Listed) and not row.arms else ()),
        )
    )
    return Step(
        "measure",
        f"{len(chosen)} rows: τ and λ, perplexities, intervals",
        work,
        8_000 * len(chosen),
    )
