"""What fields of stored JSON may hold, and the check of a whole file.

A checksum tells an accident. It does not tell who wrote a file, or with which bug: so every file is
compared with a description (a `TypedDict` of the types below) before anything in it is used. A
number has limits, and a name that becomes a path is a plain one.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from knnlm.defaults import K_MAX
from knnlm.errors import DamagedError
from knnlm.ranges import LARGEST_TAU, SMALLEST_TAU
from knnlm.typed_json import FieldError, from_json

T = TypeVar("T")
_PLAIN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"
_MOST = 1 << 53
"""More than any table has rows or bytes, and a whole number in every JSON library."""


@dataclass(frozen=True)
class Within:
    """A number from `low` to `high`, both included."""

    low: float
    high: float

    def problem(self, value: float) -> str | None:
        """What is wrong with a number, if anything."""
        fits = self.low <= value <= self.high
        return None if fits else f"is not between {self.low:,} and {self.high:,}"


@dataclass(frozen=True)
class Matching:
    """A string that a regular expression matches as a whole; `meaning` says what that is."""

    pattern: str
    meaning: str

    def problem(self, value: str) -> str | None:
        """What is wrong with a string, if anything."""
        return None if re.fullmatch(self.pattern, value) else f"is not {self.meaning}"


@dataclass(frozen=True)
class NotEmpty:
    """A list with at least one item, each of them once."""

    def problem(self, value: list[Any]) -> str | None:
        """What is wrong with a list, if anything."""
        if not value:
            return "is empty"
        return None if len(set(value)) == len(value) else "names something twice"


Count = Annotated[int, Within(0, _MOST)]
"""How many there are of something."""
Positive = Annotated[int, Within(1, _MOST)]
"""The same where there is at least one."""
Share = Annotated[float, Within(0, 1)]
Temperature = Annotated[float, Within(SMALLEST_TAU, LARGEST_TAU)]
Perplexity = Annotated[float, Within(1e-9, float("inf"))]
Loss = Annotated[float, Within(-700, 700)]
"""In nats: its exp is a number."""
Seconds = Annotated[float, Within(0, _MOST)]
NeighborCount = Annotated[int, Within(1, K_MAX)]
Width = Annotated[int, Within(0, 1 << 20)]
"""Numbers in a row of a column."""
Key = Literal["att", "ffn"]
Keys = Annotated[list[Key], NotEmpty()]
MetricName = Literal["l2", "ip"]
Checksum = Annotated[str, Matching("[0-9a-f]{16}", "a checksum of 16 hexadecimal digits")]
Fingerprint = Annotated[str, Matching("[0-9a-f]{32}", "a fingerprint of 32 hexadecimal digits")]
PlainName = Annotated[str, Matching(_PLAIN, "a plain file name")]
"""A file or folder that is in no other folder than ours."""
InnerPath = Annotated[
    str,
    Matching(rf"{_PLAIN}(/{_PLAIN}){{0,3}}", "a path of plain names below the folder"),
]
"""A file in our folder, or in a folder in it."""
PathText = Annotated[str, Matching(r"(?s)[^\0]{1,4096}", "a path")]


class FileFields(TypedDict):
    """A file whose size and checksum are known."""

    bytes: Count
    xxh3: Checksum


FileList = dict[InnerPath, FileFields]
"""Files in a folder, and in folders in it."""


def check_fields(kind: type[T], value: Any, file: Path, remedy: str) -> T:
    """JSON as a description has it.

    Args:
        kind: The description.
        value: The JSON.
        file: The file that it was read from.
        remedy: What to do if it is not as described, for the error.

    Raises:
        DamagedError: A field is missing, has another type, or is out of its limits.
    """
    try:
        return from_json(kind, value)
    except FieldError as error:
        raise damaged_field(file, error, remedy) from error


def read_fields(kind: type[T], file: Path, remedy: str) -> T:
    """The same of a file of plain JSON, which has no checksum of its own.

    Args:
        kind: The description.
        file: The file.
        remedy: What to do if it is not as described, for the error.

    Raises:
        DamagedError: It is not JSON, or not as described.
    """
    try:
        value = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged_field(file, "it is not JSON", remedy) from error
    return check_fields(kind, value, file, remedy)


def damaged_field(file: Path, error: FieldError | str, remedy: str) -> DamagedError:
    """The error of a file with a field that cannot be; the caller raises it."""
    return DamagedError(f"{file} is damaged ({error}): {remedy}")
