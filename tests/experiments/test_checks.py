"""Mistakes in conditions are told in a sentence, before anything is made."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from knnlm.errors import UsageError
from knnlm.experiments import Checkpoint, Condition, SearchSpec, Texts, Workspace, run_experiment
from tests.experiments.coverage import Coverage, CoverageMeasurement


def refused(conditions: Any, tmp_path: Path, prose: Texts, model: Path) -> str:
    """The sentence with which conditions are refused, before anything is made."""
    with pytest.raises(UsageError) as error:
        run_experiment(conditions, model=model, text=prose, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (
            Coverage(4, SearchSpec(lm="gpt2")),
            "condition coverage-att-4: unknown LM 'gpt2': choose one of main",
        ),
        (
            Coverage(4, others=(Checkpoint("gpt2"),)),
            "condition coverage-att-4: unknown LM 'gpt2': choose one of main",
        ),
        (
            Coverage(4, SearchSpec(step=100)),
            "condition coverage-att-4: LM main is not trained here, so there is no update 100 of "
            "it: leave out `step`",
        ),
        (
            Coverage(4, SearchSpec(state="atn")),
            "condition coverage-atn-4: unknown state 'atn': did you mean 'att'? choose one of att, "
            "att-normed, ffn, ffn-normed",
        ),
        (
            Coverage(4, SearchSpec(metric="l3")),  # type: ignore[arg-type]
            "condition coverage-att-4: its fields cannot be written (spec.metric is none of l2, "
            "ip): give them values of the types that its class declares",
        ),
        (
            Coverage(0),
            "condition coverage-att-0: k = 0 is out of range: choose 1 to 4096",
        ),
        (
            Coverage(4, SearchSpec(fraction=1.5)),
            "condition coverage-att-4: fraction 1.5 is out of range: choose a number above 0, at "
            "most 1",
        ),
        (
            Coverage(4, SearchSpec(zeros=1.0)),
            "condition coverage-att-4: zeros 1.0 is out of range: choose a number from 0, below 1",
        ),
        (
            Coverage("4/5"),  # type: ignore[arg-type]
            "condition 'coverage-att-4/5' cannot give its name to the file of its record: leave "
            "out '/'",
        ),
        (
            Coverage(4, version=3),  # type: ignore[arg-type]
            "condition coverage-att-4: its fields cannot be written (version is not a string): "
            "give them values of the types that its class declares",
        ),
    ],
)
def test_a_mistake_in_a_condition_is_told_before_anything_is_made(
    condition: Coverage, sentence: str, tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    assert refused([Coverage(2), condition], tmp_path, prose, tiny_model) == sentence


def test_nothing_to_measure_is_told(tmp_path: Path, prose: Texts, tiny_model: Path) -> None:
    sentence = refused([], tmp_path, prose, tiny_model)
    assert sentence == "there is nothing to measure: give at least one condition"


class _Base(Condition[Workspace, Any]):
    @property
    def name(self) -> str:
        return "unfinished"

    def measure(self, workspace: Workspace) -> Any:
        raise AssertionError


@dataclass(frozen=True)
class WithoutType(_Base):
    """One that does not say what it returns."""


@dataclass(frozen=True)
class OfNumber(_Base):
    """One whose measurement is no dataclass."""

    measurement_type = object


@dataclass(frozen=True)
class TwoTypes:
    """A measurement of which JSON would not say what it is."""

    value: int | str


@dataclass(frozen=True)
class OfTwoTypes(_Base):
    """One that returns it."""

    measurement_type = TwoTypes


@dataclass(frozen=True)
class Named(_Base):
    """One with any name."""

    measurement_type = CoverageMeasurement
    called: str

    @property
    def name(self) -> str:
        """The one that is given."""
        return self.called


class Bare(_Base):
    """One that is no dataclass."""

    measurement_type = CoverageMeasurement


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (WithoutType(), "has no `measurement_type`: name the dataclass that `measure` returns"),
        (OfNumber(), "measurements of OfNumber cannot be written (<class 'object'> is no data"),
        (OfTwoTypes(), "which of its types is meant): let `measurement_type` be a dataclass of"),
        (Bare(), "is no dataclass: put `@dataclass(frozen=True)` before its class"),
        ("unfinished", "'unfinished' is no condition: give a list of conditions"),
    ],
)
def test_a_kind_of_condition_that_cannot_be_kept_is_told(
    condition: Any, problem: str, tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    assert problem in refused([condition], tmp_path, prose, tiny_model)


def test_one_condition_is_no_list(tmp_path: Path, prose: Texts, tiny_model: Path) -> None:
    sentence = refused(Coverage(4), tmp_path, prose, tiny_model)
    assert sentence.startswith("`conditions` is a Coverage")
    assert ": give a list of" in sentence


@dataclass(frozen=True)
class Loose(_Base):
    """One whose search may be anything, and which need not say so."""

    measurement_type = CoverageMeasurement
    lm_name: str = "main"
    state: str = "att"
    metric: str = "l2"
    said: bool = True

    @property
    def spec(self) -> SearchSpec:
        """The search."""
        return SearchSpec(self.lm_name, state=self.state, metric=self.metric)  # type: ignore[arg-type]

    @property
    def searches(self) -> dict[SearchSpec, int]:
        """The search, or none."""
        return {self.spec: 4} if self.said else {}

    def measure(self, workspace: Workspace) -> Any:
        """Only searches."""
        workspace.neighbors(self.spec, "test", 4)


LOOSE = [
    (Loose(state="atn"), "unknown state 'atn': did you mean 'att'?"),
    (Loose(metric="l3"), "unknown metric 'l3': choose one of ip, l2"),
    (Loose(lm_name="gpt2"), "unknown LM 'gpt2': choose one of main"),
]


@pytest.mark.parametrize(("condition", "problem"), LOOSE)
def test_a_search_that_is_not_known_is_told(
    condition: Loose, problem: str, tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    assert problem in refused([condition], tmp_path, prose, tiny_model)
    out, late = tmp_path / "out", replace(condition, said=False)
    with pytest.raises(UsageError, match=re.escape(problem)):  # when it is measured
        run_experiment([late], model=tiny_model, text=prose, out=out)
    assert not list((out / "records").iterdir())


def test_two_conditions_of_one_name_are_refused(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    conditions = [Coverage(4), Coverage(4, version="other")]
    sentence = refused(conditions, tmp_path, prose, tiny_model)
    assert "two different conditions are called coverage-att-4" in sentence


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "a condition has an empty name: let it say"),
        ("a\\b", r"leave out '\\\\'"),
        ("λ\n", r"leave out '\\n'"),
        ("ü" * 101, "has a name too long for the file of its record: take at most 200"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(
    name: str, problem: str, tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    assert re.search(problem, refused([Named(name)], tmp_path, prose, tiny_model))
