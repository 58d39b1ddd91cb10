"""What is known of the components that are kept with a datastore, without opening them.

    DATASTORE/components/<name>/component.json        kind, keys, model, how it was made, its file
    DATASTORE/components/<name>/<xxh3>.safetensors    the component; its name is its checksum

λ and τ are not here: settings are (evaluation/settings.py), of every component alike. Nothing here
imports a model library.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from knnlm.datastore import Entries
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError, UsageError, unknown
from knnlm.files import read_json
from knnlm.progress import log
from knnlm.search import Retrieval, check_index
from knnlm.stored_fields import Checksum, Count, Keys, PlainName, check_fields

KNN_NAME = "knn"
"""The name of the kNN component, which every datastore has."""
FOLDER, RECORD = "components", "component.json"
FORMAT = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REMEDY = "restore it from a copy, or make the component again with `Datastore.distill`"


class _AnyRecord(TypedDict):
    """What is compared of a record of any format."""

    file: PlainName
    xxh3: Checksum


class RecordFields(_AnyRecord):
    """The record of a component."""

    kind: str
    keys: Keys
    multiplications: Count | None
    datastore: str
    model: str
    forgets: NotRequired[Count]
    command: NotRequired[str]


def check_component_name(name: str) -> None:
    """Raise a UsageError unless a new component may have this name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a name for a component: use letters, digits, '.', '_' and '-'"
        )
    if name == KNN_NAME:
        raise UsageError(f"'{name}' is the name of the neighbors themselves: choose another name")


def component_folder(entries: Entries, name: str) -> Path:
    """Where a component is kept."""
    return entries.path / FOLDER / name


def list_components(entries: Entries) -> list[str]:
    """Names of the components that are kept with a datastore."""
    return sorted(file.parent.name for file in (entries.path / FOLDER).glob(f"*/{RECORD}"))


def component_record(entries: Entries, name: str) -> dict[str, Any]:
    """What is known of a component, without reading its tensors.

    Raises:
        KnnlmError: If the datastore has no component, or it was made by an earlier knnlm.
        UsageError: If there are others, but none of that name.
    """
    names = list_components(entries)
    if not names:
        raise KnnlmError(
            f"{entries.path} has no component: make one with `Datastore.distill` first"
        )
    if name not in names:
        raise unknown("component", name, names)
    record = describe_component(entries, name)
    if "note" in record:
        raise KnnlmError(f"component {name} of {entries.path} {record['note']}")
    return record


def describe_component(entries: Entries, name: str) -> dict[str, Any]:
    """The record of a component that is there; `note` says so if it is of an earlier format."""
    file = component_folder(entries, name) / RECORD
    record = read_json(file, newest_format=FORMAT)
    record.pop("note", None)  # only we write notes
    if record.get("format") == FORMAT:
        check_fields(RecordFields, record, file, _REMEDY)
        return record
    return {
        **record,
        "note": f"was made by an earlier knnlm: distill it again under the name {name}, or delete "
        f"{component_folder(entries, name)}",
    }


def component_checksum(entries: Entries, name: str, retrieval: Retrieval | None) -> str | None:
    """What tells whether a component is still the same; None for exact search."""
    if name != KNN_NAME:
        return str(component_record(entries, name)["xxh3"])
    assert retrieval is not None
    index = check_index(entries, retrieval)
    return None if index is None else str(index["xxh3"])


def component_file(entries: Entries, name: str) -> Path:
    """The file of a component, after checking its bytes and that it belongs to the datastore.

    Raises:
        DamagedError: If it is damaged or missing.
        KnnlmError: If it was learned from another model's hidden states.
    """
    record = component_record(entries, name)
    if record["model"] != entries.meta["model"]["fingerprint"]:
        raise KnnlmError(
            f"component {name} of {entries.path} was learned from another model's states: "
            f"{make_again(name)}"
        )
    if is_stale(entries, name):
        raise KnnlmError(
            f"component {name} of {entries.path} was made from documents that were forgotten "
            f"since: {make_again(name)}"
        )
    if record["datastore"] != entries.fingerprint:
        log.warning(
            f"note: {entries.path} has changed since component {name} was learned from it; "
            f"{make_again(name)} to follow it"
        )
    return _compared(entries, name, record)


def is_stale(entries: Entries, name: str) -> bool:
    """Whether documents were forgotten since a component was made from them."""
    return bool(describe_component(entries, name).get("forgets", 0) != entries.forgets)


class ComponentFiles(NamedTuple):
    """The files of a component."""

    record: Path
    tensors: Path


def verify_component(entries: Entries, name: str) -> ComponentFiles:
    """Compare the bytes of a component with their checksum and return its files.

    One that cannot be used, of an earlier format or of documents that were forgotten, is compared
    too, with a warning.

    Raises:
        DamagedError: If its file is damaged or missing.
    """
    record = describe_component(entries, name)
    note = record.get("note")
    if note is None and is_stale(entries, name):
        note = f"was made from documents that were forgotten since: {make_again(name)}"
    if note is None:
        file = component_file(entries, name)
    else:
        file = _compared(entries, name, record)
        log.warning(f"note: component {name} of {entries.path} {note}")
    return ComponentFiles(component_folder(entries, name) / RECORD, file)


def damaged(entries: Entries, name: str) -> DamagedError:
    """The error of a component whose file is not what was written."""
    return DamagedError(
        f"component {name} of {entries.path} is damaged or missing: {make_again(name)}"
    )


def make_again(name: str) -> str:
    """How to make a component again, for messages."""
    return f"make it again with `Datastore.distill` (`Datastore.info` says how {name} was made)"


def _compared(entries: Entries, name: str, record: dict[str, Any]) -> Path:
    """The file of a component, after comparing it with its checksum."""
    folder = component_folder(entries, name)
    check_fields(_AnyRecord, record, folder / RECORD, _REMEDY)
    file = folder / record["file"]
    if not file.is_file() or checksum_file(file) != record["xxh3"]:
        raise damaged(entries, name)
    return file
