"""Components that are kept with a datastore.

    DATASTORE/components/<name>/component.json        kind, keys, model, how it was made, its file
    DATASTORE/components/<name>/<xxh3>.safetensors    the component; its name is its checksum

The JSON is replaced in one step after the file is there, so a name stands for the old component or
the new one. λ and τ are not here: settings are (evaluation/settings.py), of every component alike.
"""

import re
from pathlib import Path
from typing import Any

from knnlm.components.base import Component
from knnlm.components.knn import KNN
from knnlm.components.saving import load_component
from knnlm.datastore import Entries
from knnlm.errors import DamagedError, KnnlmError, UsageError, unknown
from knnlm.files import checksum_file, read_json, write_json, write_lock
from knnlm.progress import log
from knnlm.search import Retrieval, check_index

KNN_NAME = KNN.kind
"""The name of the kNN component, which every datastore has."""
FOLDER, RECORD = "components", "component.json"
FORMAT = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    record = read_json(component_folder(entries, name) / RECORD, newest_format=FORMAT)
    if record.get("format") == FORMAT:
        return record
    return {
        **record,
        "note": f"was made by an earlier knnlm: distill it again under the name {name}, or delete "
        f"{component_folder(entries, name)}",
    }


def publish_component(
    entries: Entries, name: str, component: Component, about: dict[str, Any]
) -> dict[str, Any]:
    """Keep a component with its datastore; one of the same name is replaced in one step.

    Args:
        entries: The datastore.
        name: What to call it.
        component: The component.
        about: How it was made, as JSON; `command` is what makes it again.

    Returns:
        The record that was written.
    """
    folder = component_folder(entries, name)
    with write_lock(entries.path, patience=10):
        draft = folder / "component.draft"
        component.save(draft)
        checksum = checksum_file(draft)
        file = folder / f"{checksum}.safetensors"
        draft.replace(file)  # the same component may be there already
        record = {
            "format": FORMAT,
            "kind": component.kind,
            "keys": list(component.keys),
            "multiplications": component.multiplications,
            **about,
            "datastore": entries.fingerprint,
            "model": entries.meta["model"]["fingerprint"],
            "file": file.name,
            "xxh3": checksum,
        }
        write_json(folder / RECORD, record)
        for older in folder.glob("*.safetensors"):
            if older != file:
                older.unlink()
    return record


def load_stored(entries: Entries, name: str) -> Component:
    """A component of a datastore, after checking its bytes and that it belongs to it.

    Raises:
        DamagedError: If its file is damaged or missing.
        KnnlmError: If it was learned from another model's hidden states.
    """
    record = component_record(entries, name)
    again = _again(name)
    file = component_folder(entries, name) / str(record["file"])
    if record["model"] != entries.meta["model"]["fingerprint"]:
        raise KnnlmError(
            f"component {name} of {entries.path} was learned from another model's states: {again}"
        )
    if record["datastore"] != entries.fingerprint:
        log.warning(
            f"note: {entries.path} has changed since component {name} was learned from it; {again} "
            "to follow it"
        )
    try:
        _compare_checksum(file, record)
        return load_component(file, entries).component
    except (DamagedError, OSError) as error:
        raise DamagedError(
            f"component {name} of {entries.path} is damaged or missing: {again}"
        ) from error


def verify_component(entries: Entries, name: str) -> int:
    """Compare the bytes of a component with their checksum and return how many there are.

    One of an earlier format is compared too, with a warning that it cannot be used.

    Raises:
        DamagedError: If its file is damaged or missing.
    """
    record = describe_component(entries, name)
    file = component_folder(entries, name) / str(record.get("file", ""))
    if "note" not in record:
        load_stored(entries, name)
        return file.stat().st_size
    try:
        _compare_checksum(file, record)
    except (DamagedError, OSError) as error:
        raise DamagedError(
            f"component {name} of {entries.path} is damaged or missing: {_again(name)}"
        ) from error
    log.warning(f"note: component {name} of {entries.path} {record['note']}")
    return file.stat().st_size


def _again(name: str) -> str:
    return f"make it again with `Datastore.distill` (`Datastore.info` says how {name} was made)"


def _compare_checksum(file: Path, record: dict[str, Any]) -> None:
    if checksum_file(file) != record.get("xxh3"):
        raise DamagedError(f"{file} is damaged")


def open_component(
    entries: Entries, name: str, retrieval: Retrieval | None, tau: float
) -> Component:
    """The component that settings name: the neighbors, or one kept with the datastore."""
    if name == KNN_NAME:
        assert retrieval is not None
        return KNN(entries, retrieval, tau)
    return load_stored(entries, name).at_temperature(tau)


def component_checksum(entries: Entries, name: str, retrieval: Retrieval | None) -> str | None:
    """What tells whether a component is still the same; None for exact search."""
    if name != KNN_NAME:
        return str(component_record(entries, name)["xxh3"])
    assert retrieval is not None
    index = check_index(entries, retrieval)
    return None if index is None else str(index["xxh3"])
