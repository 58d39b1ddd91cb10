"""A small experiment: for how many tokens the true one is among the neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knnlm.experiments import (
    BaseLM,
    Checkpoint,
    Condition,
    ExistingLM,
    Outcome,
    ResultsFolder,
    SearchSpec,
    Texts,
    Workspace,
    largest_k,
    run,
)
from knnlm.experiments.lms import LMs
from knnlm.experiments.records import WORK, make_claim
from knnlm.text.local_files import Files

ATT = SearchSpec()


@dataclass(frozen=True)
class CoverageMeasurement:
    """The coverage of both texts."""

    valid: float
    test: float


@dataclass(frozen=True)
class Coverage(Condition[Workspace, CoverageMeasurement]):
    """The coverage of the k nearest neighbors."""

    measurement_type = CoverageMeasurement
    k: int
    spec: SearchSpec = ATT
    version: str | None = None
    others: tuple[Checkpoint, ...] = ()

    @property
    def name(self) -> str:
        """k and the state."""
        return f"coverage-{self.spec.state}-{self.k}"

    @property
    def lm(self) -> Checkpoint:
        """The one that is searched with."""
        return self.spec.checkpoint

    @property
    def other_lms(self) -> tuple[Checkpoint, ...]:
        """Given, and not used."""
        return self.others

    @property
    def searches(self) -> dict[SearchSpec, int]:
        """The one search."""
        return {self.spec: self.k}

    def made_with(self, workspace: Workspace) -> str | None:
        """A version that tests change."""
        return self.version

    def measure(self, workspace: Workspace) -> CoverageMeasurement:
        """The coverage of both texts."""
        data = workspace.data(self.spec)
        valid, test = (self._coverage(workspace, data, split) for split in ("valid", "test"))
        return CoverageMeasurement(valid, test)

    def _coverage(self, workspace: Workspace, data: Any, split: str) -> float:
        queries = data.queries(split)
        near = workspace.neighbors(self.spec, split, self.k).read(0, queries.count)
        tokens = np.where(near.ids < 0, -1, data.store.targets[near.ids])
        return float((tokens == queries.targets[:, None]).any(axis=1).mean())


KINDS: dict[str, type[Condition[Any, Any]]] = {Coverage.kind: Coverage}


def texts_of(folder: Path) -> Texts:
    """The prose of tests/conftest.py."""
    train, valid, test = (Files((folder / f"{n}.txt",)) for n in ("train", "valid", "test"))
    return Texts(train, valid, test, valid)


def workspace_of(
    out: Path,
    texts: Texts,
    lms: Sequence[BaseLM | ExistingLM],
    conditions: Sequence[Condition[Workspace, Any]] = (),
    **options: Any,
) -> Workspace:
    """A workspace in the folder of an experiment."""
    work = out / WORK
    opened = LMs(lms, texts, lambda name: work / "lm" / name)
    needed = largest_k(condition.searches for condition in conditions)
    return Workspace(work, texts, opened, largest_k=needed, **options)


def experiment(
    conditions: Sequence[Condition[Workspace, Any]],
    out: Path,
    texts: Texts,
    lms: Sequence[BaseLM | ExistingLM],
    scale: str = "prose",
) -> Outcome:
    """Measure the conditions into a folder."""
    results = ResultsFolder(out)
    with results.claimed(make_claim(scale, texts, lms)):
        workspace = workspace_of(out, texts, lms, conditions)
        return run(
            conditions,
            workspace,
            results,
            scale=scale,
            command=lambda condition: f"measure {condition.name}",
        )
