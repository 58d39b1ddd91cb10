"""Whether every byte of a datastore, and of what is kept with it, is what was written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knnlm.api.overlap_records import CACHE as OVERLAP
from knnlm.api.overlap_records import read_overlap
from knnlm.components import list_components, verify_component
from knnlm.datastore import (
    ADDED,
    CHECKPOINT,
    COMPACTED,
    KEPT,
    MANIFEST,
    Entries,
    Table,
    check_kept,
    open_table,
    verify_table,
)
from knnlm.evaluation import SETTINGS_FILE, load_settings
from knnlm.files import read_json, short_path
from knnlm.formats import visible
from knnlm.locks import HOLDER, LOCK
from knnlm.progress import counted
from knnlm.search import index_file, index_folder, list_indexes

_LEFT_BEHIND = (
    LOCK,
    HOLDER,
    CHECKPOINT,
    "trained.faiss",
    "trained.json",
    "component.draft",
)
"""What a writer may leave behind, with `*.tmp`; a later one replaces it."""
_NAMED = 3


@dataclass(frozen=True)
class VerifyResult:
    """A datastore whose bytes are what was written."""

    path: Path
    entries: int
    bytes: int
    indexes: list[str]
    components: list[str]
    unknown: list[str] = field(default_factory=list)
    """Files that knnlm did not write, which nothing is known of."""

    def as_json(self) -> dict[str, Any]:
        """All of it, as `knnlm verify --json` prints it."""
        return {**vars(self), "path": str(self.path), "ok": True}

    def __str__(self) -> str:
        return (
            f"{short_path(self.path)}: {self.entries:,} entries, "
            f"{counted(len(self.indexes), 'index', 'indexes')} and "
            f"{counted(len(self.components), 'component')} are whole ({self.bytes / 1e6:,.1f} MB)"
            f"{self._unknown()}"
        )

    def _unknown(self) -> str:
        if not self.unknown:
            return ""
        left = len(self.unknown) - _NAMED
        more = f" and {counted(left, 'other')}" if left > 0 else ""
        named = ", ".join(visible(name) for name in self.unknown[:_NAMED])
        return f"; files that knnlm did not write were not compared: {named}{more}"


def verify_datastore(entries: Entries) -> VerifyResult:
    """Compare every byte of a datastore and of what is kept with it with its checksum.

    Args:
        entries: The datastore.

    Returns:
        How much was compared, and which files nothing is known of.

    Raises:
        DamagedError: A file is damaged, or is missing.
    """
    path = entries.path
    read = entries.verify()
    assert len(entries.metadata) == len(entries.documents)  # they describe the same documents
    check_kept(path)
    known = {path / KEPT, path / SETTINGS_FILE, *_files_of(entries.table)}
    indexes, components = list_indexes(entries), list_components(entries)
    for name in indexes:
        file = index_file(entries, name)
        read += file.stat().st_size
        known |= {file, index_folder(entries, name) / MANIFEST}
    load_settings(entries)
    for name in components:
        files = verify_component(entries, name)
        read += files.tensors.stat().st_size
        known |= {*files}
    for manifest in sorted(path.glob(f"cache/**/{MANIFEST}")):
        kind = read_json(manifest).get("kind")
        if isinstance(kind, str):
            table = open_table(manifest.parent, kind, unfinished=True)
            read += verify_table(table)
            known |= set(_files_of(table))
    for file in path.glob(f"{OVERLAP}/*.json"):
        read_overlap(file)
        known.add(file)
    unknown = sorted(file.relative_to(path).as_posix() for file in _others(path, known))
    return VerifyResult(path, entries.count, read, indexes, components, unknown)


def _files_of(table: Table) -> Iterator[Path]:
    """The manifest of a table and the files that it names; and those of a part that is written
    to."""
    parts = table.path / "parts"
    yield table.path / MANIFEST
    for part in table.manifest["parts"]:
        yield from (parts / part["name"] / name for name in part["files"])
    if not table.manifest["complete"]:
        yield from (parts / f"{len(table.manifest['parts']):06d}").glob("*.npy")


def _others(store: Path, known: set[Path]) -> Iterator[Path]:
    """Files in a datastore that are not known, and that no writer left behind."""
    for file in store.rglob("*"):
        if not file.is_file() or file in known:
            continue
        inside = file.relative_to(store).parts
        is_learning = inside[0] == "components" and inside[2:3] == ("learning",)
        is_work = is_learning or inside[0] in (ADDED, COMPACTED)
        if not is_work and file.name not in _LEFT_BEHIND and file.suffix != ".tmp":
            yield file
