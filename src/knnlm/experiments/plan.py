"""What a run would do, how long it would take and how much disk it needs; nothing is run.

Work is counted in operations (multiplications and additions) and divided by this machine's speed at
multiplying matrices, measured for a moment, with one factor for each kind of work that says how far
from that speed it runs. The factors were measured with LMs of a few million parameters on two
cores; treat times as good to a factor of two. A machine with GPUs is as much faster as its matrix
products are (`speed`)."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from knnlm.experiments.base_lms import BaseLM, Checkpoint, ExistingLM
from knnlm.experiments.searches import NORMALIZED, SearchSpec, zero_entries
from knnlm.experiments.texts import Sizes
from knnlm.search import paper_factory

SLOWER = {"train": 1.6, "build": 1.3, "exact": 1.8, "kmeans": 1.0, "lookup": 45.0}
"""Operations of a matrix product in the time that one operation of this work takes."""
_KMEANS_ROUNDS = 25
_OVERLAP = 2  # windows overlap by half


class Step(NamedTuple):
    """One piece of work."""

    kind: str
    what: str
    seconds: float
    """Operations until `timed` divides them by a speed."""
    bytes: int


class Plan(NamedTuple):
    """All of it. `speed` is in operations per second."""

    steps: tuple[Step, ...]
    conditions: int
    speed: float

    @property
    def seconds(self) -> float:
        """The time that all steps take, one after another."""
        return sum(step.seconds for step in self.steps)

    @property
    def bytes(self) -> int:
        """The disk space that all steps need."""
        return sum(step.bytes for step in self.steps)


def timed(steps: Iterable[Step], conditions: int, speed: float | None = None) -> Plan:
    """The plan of steps whose work is in operations.

    Args:
        steps: The steps.
        conditions: How many conditions they serve.
        speed: Operations per second; None measures those of this machine.
    """
    speed = speed or matrix_speed()
    return Plan(
        tuple(step._replace(seconds=step.seconds / speed) for step in steps), conditions, speed
    )


def matrix_speed(size: int = 768, seconds: float = 0.3) -> float:
    """Operations per second of fp32 matrix products on this machine."""
    a = np.ones((size, size), np.float32)
    rounds, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        a @ a
        rounds += 1
    return 2 * size**3 * rounds / (time.monotonic() - began)


class Costs:
    """The work that conditions share, in operations and bytes.

    Args:
        lms: The experiment's LMs.
        sizes: The entries of its texts.
    """

    def __init__(self, lms: Iterable[BaseLM | ExistingLM], sizes: Sizes) -> None:
        self.lms: Mapping[str, BaseLM | ExistingLM] = {lm.name: lm for lm in lms}
        self.sizes = sizes

    def parameters(self, lm: str) -> tuple[int, int]:
        """Those of the LM's blocks, and those of one embedding."""
        shape = self.lms[lm].shape
        return 12 * shape.layers * shape.width**2, shape.vocab_size * shape.width

    def training(self, names: Iterable[str]) -> list[Step]:
        """Each LM that is not there already, once."""
        steps = []
        for name in dict.fromkeys(names):
            lm = self.lms[name]
            if isinstance(lm, ExistingLM):
                continue
            preset = lm.preset
            blocks, embedding = self.parameters(name)
            tokens = preset.steps * preset.batch * preset.context
            label = f"{name}: {preset.steps:,} updates of {preset.batch} × {preset.context} tokens"
            work = SLOWER["train"] * 6 * (blocks + preset.embeddings * embedding) * tokens
            size = 4 * (blocks + (1 + preset.embeddings) * embedding)
            # weights, best, last with two moments, and each checkpoint twice
            steps.append(Step("train", label, work, size * (5 + 2 * len(preset.keep))))
        return steps

    def building(self, lm: Checkpoint, other_state: str = "", datastore: bool = True) -> Step:
        """An LM reads the validation and test text and, for its datastore, the training text."""
        entries = sum(self.sizes) if datastore else self.sizes.valid + self.sizes.test
        width, keys = self.lms[lm.name].shape.width, 1 if other_state else 2
        name = lm.name + (f" at update {lm.step:,}" if lm.step is not None else "")
        name += f", {other_state}" if other_state else ""
        label = f"{name}: {entries:,} entries of {width}" + ("" if datastore else ", no datastore")
        work = SLOWER["build"] * 2 * _OVERLAP * self.parameters(lm.name)[0] * entries
        return Step("build", label, work, entries * (2 * keys * width + 12))

    def deriving(self, searches: Iterable[SearchSpec]) -> list[Step]:
        """Datastores made from datastores, each once."""
        steps: dict[str, Step] = {}
        for s in searches:
            changed = s.state.endswith(NORMALIZED) or s.width is not None
            if changed or s.fraction < 1 or s.zeros:
                parts = [f"{s.lm} {s.state}"]
                parts += [f"{s.width} components"] if s.width else []
                if s.fraction < 1:
                    parts.append(f"{s.fraction:.0%} of the entries, draw {s.draw}")
                parts += [f"{s.zeros:.0%} zero entries"] if s.zeros else []
                label = ", ".join(parts)
                steps[label] = Step(
                    "derive", label, 0.0, self.entries(s) * (2 * self.width(s) + 12)
                )
        return list(steps.values())

    def searching(self, searches: Mapping[SearchSpec, int]) -> list[Step]:
        """Each search for its k, and before it the index that it needs."""
        steps = []
        for spec, k in searches.items():
            steps += [] if spec.exact else [self.index(spec)]
            steps.append(self.search(spec, k))
        return steps

    def index(self, spec: SearchSpec) -> Step:
        """The index of a search."""
        entries, width = self.entries(spec), self.width(spec)
        factory = spec.factory or paper_factory(entries, width)
        lists, code = _factory_numbers(factory, width)
        learned_from = min(entries, max(1 << 16, 256 * lists))
        rounds = _KMEANS_ROUNDS * learned_from + entries
        work = SLOWER["kmeans"] * 2 * width * rounds * (lists + 256)
        label = f"{spec.lm} {spec.state} {spec.metric}: {factory}, {entries:,} entries"
        return Step("index", label, work, entries * (code + 8))

    def search(self, spec: SearchSpec, k: int) -> Step:
        """A search for the queries of both texts."""
        entries, width = self.entries(spec), self.width(spec)
        queries = self.sizes.valid + self.sizes.test
        if spec.exact:
            work = SLOWER["exact"] * 2 * queries * entries * width
        else:
            lists, code = _factory_numbers(spec.factory or paper_factory(entries, width), width)
            probed = min(1.0, (spec.nprobe or 1) / lists)
            work = SLOWER["lookup"] * queries * entries * probed * code
        label = (
            f"{spec.lm} {spec.state} {spec.metric} {'exact' if spec.exact else 'index'}: "
            f"{queries:,} queries, {entries:,} entries, k {k:,}"
        )
        return Step("search", label, work, queries * k * 8)

    def entries(self, spec: SearchSpec) -> int:
        """Entries of the datastore that is searched."""
        count = round(self.sizes.train * spec.fraction)
        return count + (zero_entries(count, spec.zeros) if spec.zeros else 0)

    def width(self, spec: SearchSpec) -> int:
        """Numbers in a state of the datastore that is searched."""
        return spec.width or self.lms[spec.lm].shape.width


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
