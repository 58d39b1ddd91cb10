"""The manifest of a table: which parts exist, and what every byte of them must be.

A part exists once a manifest names it. Everything that opens a table reads its manifest here, so a
folder that is no table, another kind of table, another format or a damaged file gets the same
sentence everywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import checksum_file, read_json

FORMAT = 2
MANIFEST = "manifest.json"
RESTORE = "restore it from a copy, or delete the folder and make it again"
_KIND_NAMES = {"states": "datastore", "neighbors": "neighbor cache"}


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read and check the manifest of a table.

    Args:
        path: The table's folder.
        kind: What the table must hold, as in its manifest.

    Raises:
        KnnlmError: There is no table, or one of another kind or format.
        DamagedError: The manifest's own checksum differs.
    """
    file = path / MANIFEST
    if not path.is_dir():
        raise KnnlmError(f"there is no folder {path}: check the path")
    if not file.is_file():
        name = _KIND_NAMES.get(kind, kind)
        raise KnnlmError(f"{path} is not a {name} (no {MANIFEST}): {_hint(path)}")
    manifest = read_json(file, newest_format=FORMAT)
    if manifest["format"] != FORMAT:
        raise KnnlmError(
            f"{path} has format {manifest['format']}, of an earlier knnlm: make it again with this "
            "one"
        )
    if manifest.get("kind") != kind:
        raise KnnlmError(
            f"{path} holds {manifest.get('kind', 'something else')}, not {kind}: check the path"
        )
    return manifest


def checked_file(path: Path, part: Mapping[str, Any], name: str) -> Path:
    """The path of a part's file, once its checksum was compared.

    Args:
        path: The table's folder.
        part: The part, as in the manifest.
        name: The file's name.

    Raises:
        DamagedError: The file is missing, or not what was written.
    """
    file = path / "parts" / part["name"] / name
    if not file.is_file():
        raise DamagedError(f"{file} is missing: {RESTORE}")
    if checksum_file(file) != part["files"][name]["xxh3"]:
        raise DamagedError(f"{file} is damaged (its checksum differs): {RESTORE}")
    return file


def difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """In a few words, how the columns, the format or the meta of two manifests differ."""
    for key in ("columns", "format"):
        if stored[key] != wanted[key]:
            return f"other {key}"
    old, new = stored["meta"], wanted["meta"]
    return f"other {' and '.join(key for key in {**new, **old} if new.get(key) != old.get(key))}"


def _hint(path: Path) -> str:
    if (path / "config.json").is_file():
        return "it is a model folder, make a datastore from it with 'knnlm build'"
    return "check the path"
