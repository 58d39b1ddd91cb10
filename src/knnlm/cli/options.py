"""Options that several verbs share, how a text is named, and how results print."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnlm.errors import UsageError

if TYPE_CHECKING:
    from knnlm.text import Text

Texts = Annotated[
    list[Path] | None,
    typer.Option(
        "--text",
        metavar="PATH",
        help="File or folder of text (repeatable). A WikiText folder has splits.",
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", help="Hugging Face data set, NAME or NAME:CONFIG, streamed."),
]
UseEmbedded = Annotated[
    bool,
    typer.Option(
        "--embedded", help="The built-in text: docstrings and language reference of this Python."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Key = Annotated[str | None, typer.Option("--key", help="Which hidden state: att or ffn.")]
Metric = Annotated[str | None, typer.Option("--metric", help="l2 or ip (inner product).")]
IndexName = Annotated[
    str | None, typer.Option("--index", help="Name of an index of the datastore (see knnlm info).")
]
Exact = Annotated[bool, typer.Option("--exact", help="Search exactly, without an index.")]
ScoreName = Annotated[
    str | None,
    typer.Option("--score", help="index (the index's own scores) or exact (recomputed)."),
]
ComponentName = Annotated[
    str | None,
    typer.Option(
        "--component", help="A component of the datastore instead of a search (see knnlm distill)."
    ),
]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Folder made by knnlm build.")]
Model = Annotated[
    str | None, typer.Option("--model", help="The datastore's model, if it has moved.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda, cuda:1 …; default cuda where there is one."),
]


def named_text(text: list[Path] | None, dataset: str | None, embedded: bool) -> "Text":
    """The text that --text, --dataset or --embedded names: exactly one of them."""
    named = optional_text(text, dataset, embedded)
    if named is None:
        raise UsageError("name one text: --text PATH…, --dataset NAME or --embedded")
    return named


def optional_text(text: list[Path] | None, dataset: str | None, embedded: bool) -> "Text | None":
    """The same, or None where none is named."""
    from knnlm.text import HubDataset, PythonDocs

    if sum([bool(text), dataset is not None, embedded]) > 1:
        raise UsageError("name one text: --text PATH…, --dataset NAME or --embedded")
    if embedded:
        return PythonDocs()
    if dataset is not None:
        return HubDataset(dataset)
    return text or None


def checked_score(score: str | None) -> Any:
    """A kind of score that exists, or None."""
    from knnlm.errors import unknown

    if score not in (None, "index", "exact"):
        raise unknown("score", score, ("index", "exact"))
    return score


def show(as_json: bool, fields: Mapping[str, Any], lines: list[str]) -> None:
    """Print a result: one JSON object, or lines for people."""
    if as_json:
        print(json.dumps(fields, default=str, allow_nan=False))
    elif lines:
        print("\n".join(lines))
    sys.stdout.flush()


def numbers(given: str | None, flag: str) -> list[float] | None:
    """A comma-separated list of numbers."""
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(
            f"{flag} '{given}' is not a list of numbers: write them like 0.5,1,2"
        ) from error
