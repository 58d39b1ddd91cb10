"""Components that are kept with a datastore: published, opened, found by name (records.py knows
where they are).

A record is replaced in one step after its file is there, so a name stands for the old component or
the new one.
"""

from typing import Any

from knnlm.components.base import Component
from knnlm.components.knn import KNN
from knnlm.components.records import (
    FORMAT,
    KNN_NAME,
    RECORD,
    component_file,
    component_folder,
    damaged,
    list_components,
)
from knnlm.components.saving import load_component
from knnlm.datastore import Entries, note_deleted, note_kept
from knnlm.disk import checksum_file, refuse_links, remove_folder, sync_folder
from knnlm.errors import DamagedError
from knnlm.files import write_json
from knnlm.locks import write_lock
from knnlm.search import Retrieval


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
    refuse_links(folder, below=entries.path)
    with write_lock(entries.path, patience=10):
        draft = folder / "component.draft"
        component.save(draft)
        checksum = checksum_file(draft)
        file = folder / f"{checksum}.safetensors"
        draft.replace(file)  # the same component may be there already
        sync_folder(folder)
        record = {
            "format": FORMAT,
            "kind": component.kind,
            "keys": list(component.keys),
            "multiplications": component.multiplications,
            **about,
            "datastore": entries.fingerprint,
            "forgets": entries.forgets,
            "model": entries.meta["model"]["fingerprint"],
            "file": file.name,
            "xxh3": checksum,
        }
        write_json(folder / RECORD, record)
        names = list_components(entries)
        note_kept(entries.path, (component_folder(entries, n) / RECORD for n in names))
        for older in folder.glob("*.safetensors"):
            if older != file:
                older.unlink()
    return record


def delete_component(entries: Entries, name: str) -> None:
    """Delete a component and what it was learned with."""
    folder = component_folder(entries, name)
    with write_lock(entries.path, patience=10):
        remove_folder(folder, below=entries.path)
        note_deleted(entries.path, [folder / RECORD])


def load_stored(entries: Entries, name: str) -> Component:
    """A component of a datastore, after checking its bytes and that it belongs to it.

    Raises:
        DamagedError: If its file is damaged or missing.
        KnnlmError: If it was learned from another model's hidden states.
    """
    file = component_file(entries, name)
    try:
        return load_component(file, entries).component
    except (DamagedError, OSError) as error:
        raise damaged(entries, name) from error


def open_component(
    entries: Entries, name: str, retrieval: Retrieval | None, tau: float
) -> Component:
    """The component that settings name: the neighbors, or one kept with the datastore."""
    if name == KNN_NAME:
        assert retrieval is not None
        return KNN(entries, retrieval, tau)
    return load_stored(entries, name).at_temperature(tau)
