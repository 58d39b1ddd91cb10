"""Options that several verbs share, and how results are printed. Knows nothing of any one verb."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from knnlm.errors import UsageError

Texts = Annotated[
    list[Path] | None,
    typer.Option(
        "--text", help="File or folder of text (repeatable). A WikiText folder has splits."
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", help="Hugging Face data set, NAME or NAME:CONFIG, streamed."),
]
UseEmbedded = Annotated[
    bool,
    typer.Option(
        "--embedded", help="The text that Python carries: docstrings and language reference."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Key = Annotated[str | None, typer.Option("--key", help="Which states: att or ffn.")]
IndexName = Annotated[
    str | None, typer.Option("--index", help="Name of an index of the store (see knnlm info).")
]
Exact = Annotated[bool, typer.Option("--exact", help="Search exactly, without an index.")]
ComponentName = Annotated[
    str | None,
    typer.Option(
        "--component", help="Use this component of the store (see knnlm distill), not a search."
    ),
]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Folder made by knnlm build.")]
Model = Annotated[str | None, typer.Option("--model", help="The store's model, if it has moved.")]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda, cuda:1 …; default cuda where there is one."),
]


def mask(index: str | None, exact: bool) -> str | None:
    """The mask that --index and --exact ask for together."""
    if index is not None and exact:
        raise UsageError("--index and --exact exclude each other: give one of them")
    return "exact" if exact else index


def show(as_json: bool, fields: Mapping[str, Any], lines: list[str]) -> None:
    """Print a result: one JSON object, or lines for people."""
    if as_json:
        print(json.dumps(fields, default=str, allow_nan=False))
    elif lines:
        print("\n".join(lines))
    sys.stdout.flush()


def numbers(given: str | None, name: str) -> list[float] | None:
    """A comma-separated list of numbers."""
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(
            f"{name} '{given}' is not a list of numbers: write them like 0.5,1,2"
        ) from error
