"""A new version of a finished table: parts that were written elsewhere become its own.

Staged parts get a second name (a hard link, or a copy where there are none) in the table's folder
and do not exist until a manifest names them; then the manifest is replaced in one step. A writer
that is killed before that begins again; the staged table is still whole.

    TABLE/manifest.json    names the parts of this version
    TABLE/parts/000007/    the files of STAGED/parts/000000
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from knnlm.datastore.table import MANIFEST, Table
from knnlm.disk import explain_os_errors, flush_file, refuse_links, sync_folder
from knnlm.files import write_json

PARTS = "parts"
ADDED, COMPACTED = "added", "compacted"
"""Where parts are written before they are the table's own (changes.py)."""
ADDED, COMPACTED = "added", "compacted"
"""Folders of a datastore in which its next version is made (changes.py)."""


def publish(table: Table, staged: Table | None, **changed: Any) -> None:
    """Give a table another manifest; readers that have it open keep the version they opened.

    Args:
        table: The table. Its write lock is held, and it was opened since.
        staged: A finished table whose parts it gets; None: none.
        **changed: Fields of the manifest. `parts` are those kept of the table's own: all by
            default; the new ones come after them.
    """
    manifest = dict(table.manifest)
    kept: Sequence[Mapping[str, Any]] = changed.pop("parts", manifest["parts"])
    parts = [*kept, *([] if staged is None else _taken_over(table, staged))]
    rows = sum(int(part["rows"]) for part in parts)
    write_json(table.path / MANIFEST, {**manifest, **changed, "parts": parts, "rows": rows})


def remove_unnamed_parts(table: Table) -> None:
    """Delete the part folders that the manifest does not name: of an earlier version, or of a
    writer that was killed."""
    named = {part["name"] for part in table.manifest["parts"]}
    refuse_links(table.path / PARTS, below=table.path)
    with explain_os_errors(table.path):
        for folder in sorted((table.path / PARTS).iterdir()):
            if folder.name not in named:
                _remove(folder)
        sync_folder(table.path / PARTS)


def _taken_over(table: Table, staged: Table) -> list[dict[str, Any]]:
    """The parts of a staged table behind those of another, and as its manifest names them."""
    refuse_links(table.path / PARTS, below=table.path)
    first = 1 + max((int(part["name"]) for part in table.manifest["parts"]), default=-1)
    parts = []
    with explain_os_errors(table.path):
        for number, part in enumerate(staged.manifest["parts"], first):
            name = f"{number:06d}"
            folder = table.path / PARTS / name
            if folder.is_symlink() or folder.exists():  # of a writer that was killed
                _remove(folder)
            folder.mkdir()
            for file in part["files"]:
                _link(staged.path / PARTS / part["name"] / file, folder / file)
            sync_folder(folder)
            parts.append({**part, "name": name})
        sync_folder(table.path / PARTS)
    return parts


def _link(file: Path, other: Path) -> None:
    """A second name of a file, or a copy of it where a file has one name."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)
        flush_file(other)


def _remove(folder: Path) -> None:
    """Delete a folder; of a link only the link."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
    else:
        shutil.rmtree(folder)
