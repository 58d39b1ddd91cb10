"""A hostile writer: JSON whose seal fits and whose content is absurd."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from knnlm.errors import KnnlmError
from knnlm.files import read_json, write_json

MISSING = object()
DEEP: Any = json.loads("[" * 60 + "]" * 60)
ABSURD: tuple[Any, ...] = (
    MISSING,
    None,
    True,
    0,
    1,
    -1,
    7,
    2**31,
    2**63,
    -(2**63),
    10**400,
    0.5,
    -0.5,
    1.5,
    -1e300,
    1e308,
    5e-324,
    "",
    "7",
    "..",
    "../../../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "000001",
    "nul\0",
    "\x1b[2J",
    "lone \ud800",
    "x" * 5000,
    [],
    {},
    [[]],
    [None],
    [1, "a"],
    {"": None},
    {"..": {"bytes": 1, "xxh3": "0" * 16}},
    DEEP,
)
NOT_FINITE = (float("nan"), float("inf"), -float("inf"))
"""JSON of Python may hold them where no seal is on it."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a JSON value something can be changed: the whole, and every item in it."""
    yield at
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            yield from places(item, (*at, name))


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """A copy of a JSON value with another one, or nothing, at a place."""
    if not at:
        return new
    result = copy.deepcopy(value)
    holder = result
    for name in at[:-1]:
        holder = holder[name]
    if new is MISSING:
        del holder[at[-1]]
    else:
        holder[at[-1]] = new
    return result


def mutations(
    value: Any, most: int, seed: int = 0, *, sealed: bool = True
) -> list[tuple[tuple[Any, ...], Any]]:
    """Up to `most` pairs of (place, absurd value), drawn without repetition."""
    absurd = ABSURD if sealed else (*ABSURD, *NOT_FINITE)
    every = [(at, new) for at in places(value) for new in absurd if at or not sealed]
    every = [(at, new) for at, new in every if at or new is not MISSING]
    return random.Random(seed).sample(every, min(most, len(every)))


def survive(
    value: Any,
    cases: list[tuple[tuple[Any, ...], Any]],
    write: Callable[[Any], None],
    use: Callable[[], None],
) -> int:
    """Write each changed value and use it; only a one-sentence KnnlmError may leave. Returns how
    many were refused."""
    refused, failures = 0, []
    for at, new in cases:
        write(changed(value, at, new))
        try:
            use()
        except KnnlmError as error:
            refused += 1
            if "\n" in str(error) or "\x1b" in str(error):
                failures.append(f"{at} = {repr(new)[:60]}: {str(error)[:200]}")
        except Exception as error:
            failures.append(f"{at} = {repr(new)[:60]}: {type(error).__name__}: {str(error)[:200]}")
    write(value)
    use()
    assert not failures, f"{len(failures)} of {len(cases)}: " + " | ".join(failures[:12])
    return refused


def sealed_file(file: Path) -> tuple[dict[str, Any], Callable[[Any], None]]:
    """The fields of a sealed file, and how to write others there."""
    return read_json(file), lambda fields: write_json(file, fields)
