"""Single options that several verbs share, and how results print."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from knnlm.errors import UsageError
from knnlm.formats import printable

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Folder made by knnlm build.")]
Model = Annotated[
    str | None, typer.Option("--model", help="The datastore's model, if it has moved.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda, cuda:1 …; by default cuda if there is one."),
]


def show(as_json: bool, fields: Mapping[str, Any], lines: list[str]) -> None:
    """Print a result: one JSON object, or lines for people, which can steer no terminal."""
    if as_json:
        print(json.dumps(fields, default=str, allow_nan=False))
    elif lines:
        print(printable("\n".join(lines)))
    sys.stdout.flush()


def numbers(given: str | None, flag: str, example: str = "0.5,1,2") -> list[float] | None:
    """A comma-separated list of numbers."""
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(
            f"{flag} '{given}' is not a list of numbers: write them like {example}"
        ) from error
