"""What a manifest says, described: of any table, and of a table of entries.

It is compared with this before a file that it names is opened. That its numbers add up is part of
the description: parts are numbered without a gap and have the rows of the table in sum, and what
was forgotten is a part of what was built.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from knnlm.stored_fields import (
    Checksum,
    Count,
    FileFields,
    Keys,
    Matching,
    PathText,
    PlainName,
    Positive,
    Temperature,
    Width,
    Within,
    check_fields,
    damaged_field,
)

RESTORE = "restore it from a copy, or delete the folder and make it again"
_ColumnName = Annotated[str, Matching("[a-z][a-z0-9_]{0,63}", "a name of a column")]
_Percent = Annotated[float, Within(0, 100)]


class PartFields(TypedDict):
    """A part: a folder with a file for each column."""

    name: Annotated[str, Matching("[0-9]{6}", "a number of six digits")]
    rows: Positive
    files: dict[PlainName, FileFields]


class ColumnFields(TypedDict):
    """A column."""

    dtype: Literal["<f2", "<f4", "<f8", "<i2", "<i4", "<i8"]
    width: Width


class ManifestFields(TypedDict):
    """A table."""

    format: int
    kind: str
    complete: bool
    rows: Count
    columns: dict[_ColumnName, ColumnFields]
    meta: dict[str, Any]
    parts: list[PartFields]
    summary: NotRequired[dict[str, Any]]


class _CheckpointFields(TypedDict):
    """The open part of a table that is written."""

    made_from: str
    part: Count
    rows: Positive
    columns: dict[_ColumnName, Checksum]
    note: NotRequired[dict[str, Any]]


_ModelFields = TypedDict(
    "_ModelFields",
    {"class": str, "fingerprint": str, "precision": str, "tokenizer": str, "vocab_size": Positive},
)


class _TextFile(TypedDict):
    name: str
    xxh3: str


class _TextFields(TypedDict):
    kind: str
    files: NotRequired[list[_TextFile]]
    revision: NotRequired[str]
    named: NotRequired[str]


class _EntriesMeta(TypedDict):
    model: _ModelFields
    text: _TextFields
    keys: Keys
    taps: dict[str, str]
    att_module: str | None
    window: Positive
    stride: Positive
    part_rows: Positive
    softmax_temperature: NotRequired[Temperature]


class _OwnText(TypedDict):
    """How a text with splits was named; which fields there are depends on its kind."""

    kind: str
    name: NotRequired[str]
    column: NotRequired[str]
    path: NotRequired[PathText]
    paths: NotRequired[list[PathText]]
    split: NotRequired[tuple[_Percent, _Percent, _Percent]]
    meta: NotRequired[dict[str, Any]]


class _Added(TypedDict):
    """A text that was added."""

    text: _TextFields
    words: Count
    documents: Count


class _EntriesSummary(TypedDict):
    words: Count
    documents: Positive
    model_source: PathText
    model_revision: NotRequired[str | None]
    adapter: PathText | None
    text: NotRequired[_OwnText]
    forgotten: NotRequired[list[tuple[Count, Count, Count, Count]]]
    forgets: NotRequired[Count]
    added: NotRequired[list[_Added]]


class _EntriesManifest(TypedDict):
    rows: Positive
    meta: _EntriesMeta
    summary: _EntriesSummary


def check_manifest(manifest: dict[str, Any], file: Path) -> None:
    """Compare the manifest of a table with its description.

    Args:
        manifest: Its fields.
        file: Where it was read from.

    Raises:
        DamagedError: A field cannot be, or the fields contradict each other.
    """
    check_fields(ManifestFields, manifest, file, RESTORE)
    first = int(manifest["parts"][0]["name"]) if manifest["parts"] else 0
    for number, part in enumerate(manifest["parts"]):
        if part["name"] != (follows := f"{first + number:06d}"):
            raise damaged_field(file, f"parts[{number}].name is not {follows}", RESTORE)
        for name in manifest["columns"]:
            if f"{name}.npy" not in part["files"]:
                raise damaged_field(file, f"parts[{number}].files.{name}.npy is missing", RESTORE)
    if manifest["rows"] != sum(part["rows"] for part in manifest["parts"]):
        raise damaged_field(file, "rows is not the sum of the rows of the parts", RESTORE)


def check_entries_manifest(manifest: dict[str, Any], file: Path) -> None:
    """The same for a finished table of entries: what `meta` and `summary` must have.

    Args:
        manifest: Its fields, after `check_manifest`.
        file: Where it was read from.

    Raises:
        DamagedError: A field cannot be, or the fields contradict each other.
    """
    check_fields(_EntriesManifest, manifest, file, RESTORE)
    columns, meta = manifest["columns"], manifest["meta"]
    if meta["stride"] > meta["window"]:
        raise damaged_field(file, "meta.stride is more than meta.window", RESTORE)
    for key in meta["keys"]:
        if key not in columns:
            raise damaged_field(file, f"columns.{key} is missing", RESTORE)
        if columns[key]["dtype"] not in ("<f2", "<f4") or not columns[key]["width"]:
            raise damaged_field(file, f"columns.{key} holds no hidden states", RESTORE)
    for name in ("target", "document", "position"):
        if columns.get(name) != {"dtype": "<i4", "width": 0}:
            raise damaged_field(file, f"columns.{name} is not of type int32", RESTORE)
    for name in ("lm_logprob", "tempered_logprob"):
        if columns.get(name) not in (None, {"dtype": "<f4", "width": 0}):
            raise damaged_field(file, f"columns.{name} is not of type float32", RESTORE)
    if missing := _missing(manifest["summary"].get("text")):
        raise damaged_field(file, f"summary.text.{missing} is missing", RESTORE)
    if not _add_up(manifest["summary"], manifest["rows"]):
        raise damaged_field(file, "summary.forgotten is not a part of the documents", RESTORE)


def check_checkpoint(checkpoint: dict[str, Any], file: Path) -> dict[str, Any]:
    """Compare the checkpoint of a table with its description.

    Raises:
        DamagedError: A field cannot be.
    """
    check_fields(_CheckpointFields, checkpoint, file, RESTORE)
    return checkpoint


_NEEDED = {
    "dataset": ("name", "column"),
    "folder": ("paths", "split", "meta"),
    "wikitext": ("path",),
}


def _missing(text: dict[str, Any] | None) -> str | None:
    """The first field that the name of a text of this kind lacks."""
    needed = () if text is None else _NEEDED.get(text["kind"], ())
    return next((field for field in needed if field not in (text or {})), None)


def _add_up(summary: dict[str, Any], rows: int) -> bool:
    """Whether forgotten documents are different ones, of different rows, and leave some."""
    end = words = left = 0
    gone = sorted(summary.get("forgotten", ()), key=lambda document: document[1:3])
    for _, start, stop, of_document in gone:
        if not end <= start <= stop:
            return False
        end, words, left = stop, words + of_document, left + start - end
    numbers = {document[0] for document in gone}
    few = len(numbers) == len(gone) and max(numbers, default=-1) < summary["documents"]
    return few and end <= rows and words <= summary["words"] and left + rows - end > 0
