"""Mistakes in conditions, told before anything is opened or measured."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from knnlm.errors import UsageError
from knnlm.experiments.condition import Condition
from knnlm.experiments.lms import LMs
from knnlm.experiments.searches import check_search
from knnlm.ranges import check_k
from knnlm.typed_json import FieldError, check_json_type

_NOT_IN_FILE_NAMES = r'[/\\:*?"<>|\x00-\x1f]'
_LONGEST_NAME = 200


def check_conditions(conditions: Sequence[Condition[Any, Any]], lms: LMs) -> None:
    """Refuse conditions that cannot be measured, kept or told apart.

    Args:
        conditions: What is to be measured, with searches of att and ffn only.
        lms: The LMs of the experiment.

    Raises:
        UsageError: There are none, or something is wrong with one of them.
    """
    if not conditions:
        raise UsageError("there is nothing to measure: give at least one condition")
    named: dict[str, Condition[Any, Any]] = {}
    for condition in conditions:
        _check_kind(condition)
        _check_name(condition.name)
        try:
            _check_settings(condition)
            _check_needs(condition, lms)
        except UsageError as error:
            raise UsageError(f"condition {condition.name}: {error}") from error
        if named.setdefault(condition.name, condition) != condition:
            raise UsageError(
                f"two different conditions are called {condition.name}: let the name say in what "
                "they differ"
            )


def _check_kind(condition: Any) -> None:
    """Its class is complete, and its measurements can be written and read."""
    if not isinstance(condition, Condition):
        raise UsageError(f"{condition!r} is no condition: give a list of conditions")
    kind: type[Any] = type(condition)
    name = kind.__name__
    if not dataclasses.is_dataclass(kind):
        raise UsageError(f"{name} is no dataclass: put `@dataclass(frozen=True)` before its class")
    measurement_type = getattr(kind, "measurement_type", None)
    if measurement_type is None:
        raise UsageError(
            f"{name} has no `measurement_type`: name the dataclass that `measure` returns"
        )
    try:
        check_json_type(measurement_type)
    except TypeError as error:
        raise UsageError(
            f"the measurements of {name} cannot be written ({error}): let `measurement_type` be a "
            "dataclass of numbers, texts, tuples and further dataclasses"
        ) from error


def _check_name(name: str) -> None:
    """A record's file has the name of its condition, on any system."""
    if not name:
        raise UsageError("a condition has an empty name: let it say what is measured")
    if strange := re.search(_NOT_IN_FILE_NAMES, name):
        raise UsageError(
            f"condition {name!r} cannot give its name to the file of its record: leave out "
            f"{strange[0]!r}"
        )
    if len(name.encode()) > _LONGEST_NAME:
        raise UsageError(
            f"condition {name[:40]} … has a name too long for the file of its record: take at most "
            f"{_LONGEST_NAME} characters"
        )


def _check_settings(condition: Condition[Any, Any]) -> None:
    try:
        condition.settings  # noqa: B018
    except (FieldError, TypeError) as error:
        raise UsageError(
            f"its fields cannot be written ({error}): give them values of the types that its class "
            "declares"
        ) from error


def _check_needs(condition: Condition[Any, Any], lms: LMs) -> None:
    """Its LMs and searches are known."""
    for lm in (condition.lm, *condition.other_lms):
        lms.check(*lm)
    for spec, k in condition.searches.items():
        lms.check(*spec.checkpoint)
        check_search(spec)
        check_k(k)
