"""Conditions → records on disk, resumable.

A record depends on its condition, the texts and the LMs alone, so a killed run that is run again
ends with the same results as one that was never killed; only `provenance` tells them apart. (On one
kind of CPU with as many threads: other vector instructions round differently, and after hundreds of
updates that is another LM of the same recipe.)"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from knnlm.errors import KnnlmError, UsageError
from knnlm.experiments.condition import Condition, M, W, grouped_by_lm
from knnlm.experiments.provenance import make_provenance
from knnlm.experiments.records import Record, ResultsFolder
from knnlm.experiments.workspace import Workspace
from knnlm.files import read_json, write_json
from knnlm.progress import log
from knnlm.stored_fields import Seconds, check_fields
from knnlm.typed_json import FieldError, to_json


class Outcome(NamedTuple):
    """What a run did."""

    folder: Path
    conditions: int
    measured: int
    """Those of them that the folder did not hold yet."""
    seconds: float


def run(
    conditions: Sequence[Condition[W, Any]],
    workspace: W,
    results: ResultsFolder,
    *,
    scale: str,
    command: Callable[[Condition[W, Any]], str],
    known: Iterable[Condition[W, Any]] = (),
) -> Outcome:
    """Measure every condition that the folder does not hold yet. The folder must be claimed.

    Args:
        conditions: What to measure.
        workspace: Where to measure.
        results: Where records are kept.
        scale: The scale's name, for records.
        command: The command that measures a condition.
        known: Further conditions that the folder may hold records of, whose LMs must be the same.

    Raises:
        KnnlmError: The folder holds records of an LM that came out differently, or a measurement
            cannot be written.
        UsageError: The folder holds the record of another condition of the same name.
    """
    began = time.monotonic()
    ordered = grouped_by_lm(conditions)
    missing = [condition for condition in ordered if not _measured(condition, workspace, results)]
    fingerprints = _known_lms(results, (*known, *ordered))
    for number, condition in enumerate(missing, start=1):
        log.info(f"[{number}/{len(missing)}] {condition.name}")
        for lm in {lm.name for lm in (*condition.other_lms, condition.lm)} & fingerprints.keys():
            _refuse_another_lm(lm, fingerprints.pop(lm), workspace, results)
        _measure(condition, workspace, results, scale, command(condition))
    return Outcome(results.path, len(ordered), len(missing), time.monotonic() - began)


def _measured(condition: Condition[W, Any], workspace: W, results: ResultsFolder) -> bool:
    """Whether the folder holds the condition's record, made with what it is made with now.

    Raises:
        UsageError: It is the record of another condition.
    """
    record = results.read(condition)
    if record is None or record.made_with != condition.made_with(workspace):
        return False
    if difference := _difference(record.settings, condition.settings):
        raise UsageError(
            f"{results.file(condition.name)} is of another condition called {condition.name} "
            f"({difference}): let the name say in what the two differ, or choose another `out`"
        )
    return True


def _difference(before: Any, now: Any, field: str = "") -> str:
    """The first setting that is not what it was, or ""."""
    if before == now:
        return ""
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        name = next(name for name in now if before[name] != now[name])
        return _difference(before[name], now[name], f"{field}.{name}" if field else name)
    was, is_now = (
        value if isinstance(value, str) else json.dumps(value) for value in (before, now)
    )
    return f"{field} is {is_now}, not {was}"


def _measure(
    condition: Condition[W, Any], workspace: W, results: ResultsFolder, scale: str, command: str
) -> None:
    clock = _Clock(workspace, condition.name)
    try:
        measurement = _checked(condition, condition.measure(workspace))
    except BaseException:
        clock.keep()
        raise
    results.write(
        Record(
            condition.name,
            condition.kind,
            scale,
            condition.settings,
            condition.made_with(workspace),
            measurement,
            make_provenance(condition, workspace.lms, command, clock.seconds()),
        )
    )
    clock.forget()


def _checked(condition: Condition[W, M], measurement: M) -> M:
    """A measurement that can be written and read again."""
    kind, wanted = type(condition).__name__, condition.measurement_type
    if type(measurement) is not wanted:
        raise KnnlmError(
            f"`{kind}.measure` returned a {type(measurement).__name__}: return a "
            f"{wanted.__name__}, its `measurement_type`"
        )
    try:
        to_json(measurement, "measurement")
    except FieldError as error:
        raise KnnlmError(
            f"what was measured for {condition.name} cannot be written ({error}): change what "
            f"`{kind}.measure` returns"
        ) from error
    return measurement


class _Kept(TypedDict):
    """What a clock keeps."""

    seconds: Seconds


class _Clock:
    """The seconds of one condition, those before an interruption included. Training is left out: an
    LM serves many conditions and has a clock of its own."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.file, self.lms = workspace.folder / "clocks" / f"{name}.json", workspace.lms
        self.before = 0.0
        if self.file.is_file():
            remedy = "delete it, and the seconds before are not counted"
            self.before = check_fields(_Kept, read_json(self.file), self.file, remedy)["seconds"]
        self.began, self.trained = time.monotonic(), self.lms.seconds

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began - (self.lms.seconds - self.trained)

    def keep(self) -> None:
        """After an interruption, for the next process."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.file, {"seconds": self.seconds()})

    def forget(self) -> None:
        """After the record was written."""
        self.file.unlink(missing_ok=True)


_Fingerprints = dict[int | None, set[str]]  # of one LM, at each update


def _known_lms(
    results: ResultsFolder, conditions: Iterable[Condition[W, Any]]
) -> dict[str, _Fingerprints]:
    """The LMs that the folder's records were made with."""
    known: dict[str, _Fingerprints] = {}
    for condition in grouped_by_lm(conditions):
        if (record := results.read(condition)) is not None:
            made = record.provenance
            for name, step, fingerprint in (*made.other_models, (*condition.lm, made.model)):
                known.setdefault(name, {}).setdefault(step, set()).add(fingerprint)
    return known


def _refuse_another_lm(
    name: str, known: _Fingerprints, workspace: Workspace, results: ResultsFolder
) -> None:
    """Records are compared token by token: an LM that is trained again must come out the same."""
    if any({workspace.lms.model(name, step).fingerprint} != made for step, made in known.items()):
        raise KnnlmError(
            f"{results.path} holds records of another LM called {name} than the one in "
            f"{workspace.lms.folder(name)} (another kind of CPU or number of threads trains "
            f"another LM): choose another `out`, or delete {workspace.folder} and train as before "
            "('The same numbers again' in docs/reproduce.md)"
        )
