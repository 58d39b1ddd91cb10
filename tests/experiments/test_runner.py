"""Conditions → records: each measured once, resumed after a kill, with its provenance."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import knnlm.search.cache as cache
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.experiments import (
    Checkpoint,
    ExistingLM,
    Record,
    ResultsFolder,
    SearchSpec,
    Texts,
    load_records,
)
from knnlm.experiments.condition import grouped_by_lm
from knnlm.search.open import Search, open_search
from knnlm.search.retrieval import Retrieval
from tests.experiments.coverage import KINDS, Coverage, CoverageMeasurement, experiment
from tests.experiments.killable import CONDITIONS


def without_provenance(records: dict[str, Record[Any]]) -> dict[str, Any]:
    """All but how they were made."""
    return {
        name: {field: value for field, value in vars(record).items() if field != "provenance"}
        for name, record in records.items()
    }


def test_a_record_has_the_result_and_how_it_was_made(
    tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    outcome = experiment([Coverage(4)], tmp_path / "out", prose, main_lm)
    assert outcome[:3] == (tmp_path / "out", 1, 1)
    record = load_records(tmp_path / "out", KINDS)["coverage-att-4"]
    assert record.condition == "coverage-att-4"
    assert record.kind == "coverage"
    assert record.scale == "prose"
    assert record.settings["k"] == 4
    assert 0 < record.measurement.test < 1
    made = record.provenance
    assert made.command == "measure coverage-att-4"
    assert made.model
    assert made.seed is None
    assert made.train_seconds == 0
    assert made.seconds >= 0
    assert {"python", "knnlm", "torch", "numpy"} <= made.versions.keys()
    assert made.machine
    assert made.instructions
    assert made.threads
    assert made.other_models == ()


def test_one_search_serves_all_conditions_that_agree_in_it(
    tmp_path: Path,
    prose: Texts,
    main_lm: list[ExistingLM],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: Counter[tuple[str, int]] = Counter()

    def counting(store: Entries, what: Retrieval) -> Search:
        searched[what.key, what.k] += 1
        return open_search(store, what)

    monkeypatch.setattr(cache, "open_search", counting)
    ffn = SearchSpec(state="ffn")
    conditions = [Coverage(1), Coverage(16), Coverage(4), Coverage(8, ffn), Coverage(2, ffn)]
    experiment(conditions, tmp_path / "out", prose, main_lm)
    assert searched == {("att", 16): 2, ("ffn", 8): 2}  # for validation and for test text


def test_what_is_measured_is_not_measured_again(
    tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    out = tmp_path / "out"
    experiment([Coverage(1)], out, prose, main_lm)
    before = (out / "records" / "coverage-att-1.json").read_bytes()
    outcome = experiment([Coverage(1), Coverage(2), Coverage(1)], out, prose, main_lm)
    assert (outcome.conditions, outcome.measured) == (2, 1)
    assert (out / "records" / "coverage-att-1.json").read_bytes() == before


def test_what_was_made_with_something_else_is_measured_again(
    tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    out, condition = tmp_path / "out", Coverage(1, version="first")
    experiment([condition], out, prose, main_lm)
    assert experiment([condition], out, prose, main_lm).measured == 0
    assert experiment([replace(condition, version="second")], out, prose, main_lm).measured == 1
    assert load_records(out, KINDS)[condition.name].made_with == "second"


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (Coverage(4, SearchSpec(metric="ip")), "spec.metric is ip, not l2"),
        (Coverage(4, others=(Checkpoint("main"),)), r"others is \[.*main.*\], not \[\]"),
    ],
)
def test_another_condition_of_that_name_is_refused(
    other: Coverage, difference: str, tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    """Its measurement would be that of the first."""
    out = tmp_path / "out"
    experiment([Coverage(4)], out, prose, main_lm)
    before = (out / "records" / "coverage-att-4.json").read_bytes()
    sentence = (
        rf"coverage-att-4.json is of another condition called coverage-att-4 \({difference}\): "
        "let the name say in what the two differ, or choose another `out`"
    )
    with pytest.raises(UsageError, match=sentence):
        experiment([Coverage(2), other], out, prose, main_lm)
    assert (out / "records" / "coverage-att-4.json").read_bytes() == before
    assert list(load_records(out, KINDS)) == ["coverage-att-4"]


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ({"valid": 0.5, "test": 0.5}, "`Coverage.measure` returned a dict: return a CoverageMeas"),
        (None, "`Coverage.measure` returned a NoneType: return a CoverageMeasurement"),
        (CoverageMeasurement(0.5, math.nan), r"\(measurement.test is not finite\): change what"),
        (CoverageMeasurement(0.5, "much"), r"\(measurement.test is not a number\): change what"),  # type: ignore[arg-type]
    ],
)
def test_a_measurement_that_cannot_be_kept_names_its_field(
    returned: Any,
    problem: str,
    tmp_path: Path,
    prose: Texts,
    main_lm: list[ExistingLM],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Coverage, "measure", lambda *_: returned)
    with pytest.raises(KnnlmError, match=problem):
        experiment([Coverage(1)], tmp_path / "out", prose, main_lm)
    assert not list((tmp_path / "out" / "records").iterdir())


def test_numbers_of_numpy_are_kept_as_those_of_python(
    tmp_path: Path, prose: Texts, main_lm: list[ExistingLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = CoverageMeasurement(np.float64(0.25), np.float32(0.5))  # type: ignore[arg-type]
    monkeypatch.setattr(Coverage, "measure", lambda *_: returned)
    experiment([Coverage(1)], tmp_path / "out", prose, main_lm)
    kept = load_records(tmp_path / "out", KINDS)["coverage-att-1"].measurement
    assert kept == CoverageMeasurement(0.25, 0.5)
    assert type(kept.valid) is float


@pytest.mark.pipeline
def test_killed_runs_end_with_the_same_results(
    tmp_path: Path, prose: Texts, texts: dict[str, Path], tiny_model: Path
) -> None:
    """Killed at random commits until one comes to its end; that gives what an undisturbed run
    gives."""
    lms = [ExistingLM("main", str(tiny_model))]
    experiment(CONDITIONS, tmp_path / "whole", prose, lms)
    arguments = [str(tmp_path / "killed"), str(texts["train"].parent), str(tiny_model)]
    program = [sys.executable, "-m", "tests.experiments.killable", *arguments]
    rng, kills = random.Random(0), 0
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        while True:
            print(rng.randint(2, 6), file=parent.stdin, flush=True)
            status = os.waitstatus_to_exitcode(int(parent.stdout.readline()))
            if status != -signal.SIGKILL:
                break
            kills += 1
        parent.stdin.close()
    assert status == 0
    assert kills >= 3
    whole, killed = (load_records(tmp_path / name, KINDS) for name in ("whole", "killed"))
    assert without_provenance(killed) == without_provenance(whole)


def test_the_clock_of_an_interrupted_condition_resumes(
    tmp_path: Path,
    prose: Texts,
    main_lm: list[ExistingLM],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any) -> None:
        time.sleep(0.5)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Coverage, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment([Coverage(1)], tmp_path / "out", prose, main_lm)
    with monkeypatch.context() as patched:
        patched.setattr(Coverage, "measure", lambda *_: CoverageMeasurement(0.0, 0.0))
        experiment([Coverage(1)], tmp_path / "out", prose, main_lm)
    record = load_records(tmp_path / "out", KINDS)["coverage-att-1"]
    assert record.provenance.seconds >= 0.5
    assert not list((tmp_path / "out" / "work" / "clocks").iterdir())


@pytest.mark.parametrize("condition", [Coverage(2), Coverage(2, others=(Checkpoint("main"),))])
def test_records_of_an_lm_that_came_out_differently_are_refused(
    condition: Coverage, tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    out = tmp_path / "out"
    conditions = [Coverage(1), condition]
    experiment(conditions[:1], out, prose, main_lm)
    record = load_records(out, KINDS)["coverage-att-1"]
    elsewhere = replace(record.provenance, model="of another CPU")
    ResultsFolder(out).write(replace(record, provenance=elsewhere))
    with pytest.raises(KnnlmError, match="holds records of another LM called main"):
        experiment(conditions, out, prose, main_lm)
    assert list(load_records(out, KINDS)) == ["coverage-att-1"]


def test_conditions_of_one_lm_are_measured_together() -> None:
    one, two = SearchSpec("one"), SearchSpec("two", state="ffn")
    conditions = [Coverage(1, two), Coverage(1, one), Coverage(2, two), Coverage(1, two)]
    assert grouped_by_lm(conditions) == [Coverage(1, two), Coverage(2, two), Coverage(1, one)]
