"""A datastore changes, and all that is kept with it: indexes, caches, components."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knnlm.components import delete_component, is_stale, list_components
from knnlm.datastore import (
    Entries,
    add_documents,
    compact_entries,
    forget_documents,
)
from knnlm.disk import remove_folder
from knnlm.errors import KnnlmError
from knnlm.evaluation import forget_settings
from knnlm.files import short_path
from knnlm.models import LanguageModel
from knnlm.progress import counted, log
from knnlm.search import index_manifest, list_indexes, rebuild_index, update_index
from knnlm.text import Text, open_for_datastore

CACHE = "cache"


@dataclass(frozen=True)
class Change:
    """What a datastore held before a change, and what it holds now."""

    path: Path
    entries: int
    documents: int
    bytes: int
    entries_before: int
    documents_before: int
    bytes_before: int

    def as_json(self) -> dict[str, Any]:
        """All fields, as `knnlm add --json` prints them."""
        return {**vars(self), "path": str(self.path)}

    def __str__(self) -> str:
        return (
            f"{short_path(self.path)}: {self.entries:,} entries from "
            f"{counted(self.documents, 'document')}, {self.bytes / 1e6:,.1f} MB (before: "
            f"{self.entries_before:,} from {self.documents_before:,}, "
            f"{self.bytes_before / 1e6:,.1f} MB)"
        )


def add_text(entries: Entries, lm: LanguageModel, text: Text) -> Entries:
    """Append documents, and take them into every index."""
    source = open_for_datastore(text)
    now = add_documents(lm, entries, source, estimate=True)
    _each_index(now, update_index)
    return now


def forget(entries: Entries, names: Sequence[str]) -> Entries:
    """Make documents unretrievable, and delete what was searched before."""
    now = forget_documents(entries, names)
    remove_folder(now.path / CACHE / "neighbors", below=now.path)
    for name in _stale_components(now):
        log.warning(
            f"note: component {name} was made from documents that are forgotten now: it cannot be "
            "used until `Datastore.distill` makes it again; `Datastore.compact` deletes it"
        )
    return now


def compact(entries: Entries) -> Entries:
    """Remove the bytes of what was forgotten from entries, indexes, caches and components."""
    now = compact_entries(entries)
    for name in _stale_components(now):
        delete_component(now, name)
        forget_settings(now, name)
        log.info(f"component {name} is deleted: it was made from documents that are forgotten")
    if now.fingerprint != entries.fingerprint or entries.forgotten:
        remove_folder(now.path / CACHE, below=now.path)
    _each_index(now, rebuild_index, only_stale=True)
    return now


def change_of(before: Entries, bytes_before: int, now: Entries) -> Change:
    """Two versions of a datastore, side by side."""
    return Change(
        now.path,
        now.count,
        now.document_count,
        size_on_disk(now),
        before.count,
        before.document_count,
        bytes_before,
    )


def size_on_disk(entries: Entries) -> int:
    """Bytes of a datastore and of all that is kept with it."""
    return sum(file.stat().st_size for file in entries.path.rglob("*") if file.is_file())


def _stale_components(entries: Entries) -> list[str]:
    return [name for name in list_components(entries) if is_stale(entries, name)]


def _each_index(
    entries: Entries, work: Callable[[Entries, str], Any], *, only_stale: bool = False
) -> None:
    """Bring every index up to date. One that cannot be is left out with a warning: the datastore is
    whole without it."""
    for name in list_indexes(entries):
        if only_stale and not _is_stale_index(entries, name):
            continue
        try:
            work(entries, name)
        except KnnlmError as error:
            log.warning(f"note: index {name} is not up to date: {error}")


def _is_stale_index(entries: Entries, name: str) -> bool:
    try:
        index_manifest(entries, name)
    except KnnlmError:
        return True
    return False
