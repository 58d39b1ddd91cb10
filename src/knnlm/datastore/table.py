"""The table format: a folder of immutable parts of standard .npy columns and one manifest.

    TABLE/manifest.json               format, meta, columns, parts with row counts, sizes and checksums
    TABLE/parts/000000/<column>.npy   (rows,) or (rows, width), C order

Rows exist when a manifest names their part; the manifest is replaced in one step after the part's
bytes are on disk. A killed writer loses its open part and nothing else. Nothing here is ever
unpickled. Readers memory-map. This module knows nothing of what the columns mean; states and
neighbour caches are both tables."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.npy import NpyWriter
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import (
    checksum_file,
    explain_os_errors,
    raise_open_file_limit,
    read_json,
    sync_folder,
    write_bytes,
    write_json,
)

FORMAT = 2
_WORDS = {"states": "store", "neighbors": "neighbour cache"}
MANIFEST = "manifest.json"
RESTORE = "restore it from a copy, or delete the folder and make it again"


class ColumnType(NamedTuple):
    """Type of a column; width 0 is one number a row."""

    dtype: str
    width: int

    def shape(self, rows: int) -> tuple[int, ...]:
        """Shape of `rows` rows."""
        return (rows, self.width) if self.width else (rows,)


class TableWriter:
    """Appends rows. Open parts are invisible; `commit` makes the rows so far visible and durable.

    A writer on a folder that holds an unfinished table with the same `meta` and columns continues
    it: `rows` says how many rows are there. The caller then goes on from that row. As a context
    manager it lets go of the open part's files at the end."""

    def __init__(
        self, path: Path, kind: str, columns: Mapping[str, ColumnType], meta: Mapping[str, Any]
    ) -> None:
        self.path, self.columns = path, dict(columns)
        head = {"format": FORMAT, "kind": kind, "meta": dict(meta), "columns": _describe(columns)}
        self.manifest = self._continue(head) or {**head, "complete": False, "rows": 0, "parts": []}
        self._open: dict[str, NpyWriter] = {}
        self._open_rows = 0

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._open.values():
            writer.discard()

    @property
    def rows(self) -> int:
        """Rows that are committed."""
        return int(self.manifest["rows"])

    @property
    def pending(self) -> int:
        """Rows appended since the last commit."""
        return self._open_rows

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add rows; every column must be given, with the same number of rows."""
        if rows.keys() != self.columns.keys():
            raise ValueError(f"columns {sorted(rows)} given, {sorted(self.columns)} expected")
        counts = {len(values) for values in rows.values()}
        if len(counts) != 1:
            raise ValueError(
                f"columns of different lengths: { {n: len(v) for n, v in rows.items()} }"
            )
        with explain_os_errors(self.path):
            if not self._open:
                self._begin()
            for name, values in rows.items():
                self._open[name].write(values)
        self._open_rows += counts.pop()

    def commit(self, extra: Mapping[str, bytes] | None = None) -> None:
        """Close the open part and name it in the manifest; `extra` files are kept with it."""
        if not self._open_rows:
            return
        folder = self._folder(len(self.manifest["parts"]))
        with explain_os_errors(self.path):
            for writer in self._open.values():
                writer.close()
            for name, data in (extra or {}).items():
                write_bytes(folder / name, data)
            files = {
                file.name: {"bytes": file.stat().st_size, "xxh3": checksum_file(file)}
                for file in sorted(folder.iterdir())
            }
            for place in (folder, folder.parent, self.path):
                sync_folder(place)
        part = {"name": folder.name, "rows": self._open_rows, "files": files}
        self._publish(
            {
                **self.manifest,
                "parts": [*self.manifest["parts"], part],
                "rows": self.rows + self._open_rows,
            }
        )
        self._open, self._open_rows = {}, 0

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Commit what is open and mark the table complete, with a summary for readers."""
        self.commit()
        self._publish({**self.manifest, "complete": True, "summary": dict(summary)})

    def _publish(self, manifest: dict[str, Any]) -> None:
        write_json(self.path / MANIFEST, manifest)
        self.manifest = manifest

    def _begin(self) -> None:
        folder = self._folder(len(self.manifest["parts"]))
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.iterdir():
            left_over.unlink()
        for name, column in self.columns.items():
            self._open[name] = NpyWriter(folder / f"{name}.npy", column.dtype, column.width)

    def _folder(self, number: int) -> Path:
        return self.path / "parts" / f"{number:06d}"

    def _continue(self, head: dict[str, Any]) -> dict[str, Any] | None:
        if not (self.path / MANIFEST).is_file():
            return None
        found = read_manifest(self.path, head["kind"])
        if {key: found[key] for key in head} != head:
            raise KnnlmError(
                f"{self.path} was made from something else ({_difference(found, head)}): choose "
                "another folder or "
                "delete that one"
            )
        return found


class Column:
    """A column over all parts, memory-mapped; reading copies only the rows asked for."""

    def __init__(self, parts: Sequence[NDArray[Any]], column: ColumnType) -> None:
        self.parts, self.type = list(parts), column
        self.starts = np.cumsum([0] + [len(p) for p in self.parts])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop-1."""
        start, stop = max(start, 0), min(stop, len(self))
        pieces = [
            part[max(start - begin, 0) : stop - begin]
            for part, begin in zip(self.parts, self.starts[:-1], strict=True)
            if begin < stop and begin + len(part) > start
        ]
        if len(pieces) == 1:
            return np.array(pieces[0])
        return np.concatenate(pieces) if pieces else np.empty(self.type.shape(0), self.type.dtype)

    def all(self) -> NDArray[Any]:
        """The whole column in memory: for narrow columns."""
        return self.read(0, len(self))

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """(first row, rows) in order, `size` rows at a time."""
        for start in range(0, len(self), size):
            yield start, self.read(start, start + size)

    def gather(self, ids: NDArray[np.integer]) -> NDArray[Any]:
        """Rows `ids` (any shape, all in range), read in order of place, which is what disks
        like."""
        flat = ids.ravel()
        if flat.size and not 0 <= flat.min() <= flat.max() < len(
            self
        ):  # -1 would be the last row, or none
            raise IndexError(f"rows {flat.min()} … {flat.max()} asked for, there are {len(self)}")
        if len(self.parts) == 1:
            return np.take(self.parts[0], flat, axis=0).reshape(*ids.shape, *self.type.shape(0)[1:])
        order = np.argsort(flat, kind="stable")
        placed = flat[order]
        found = np.empty(self.type.shape(len(flat)), self.type.dtype)
        cuts = np.searchsorted(placed, self.starts)
        for part, begin, low, high in zip(
            self.parts, self.starts[:-1], cuts[:-1], cuts[1:], strict=True
        ):
            if high > low:
                found[order[low:high]] = np.take(part, placed[low:high] - begin, axis=0)
        return found.reshape(*ids.shape, *self.type.shape(0)[1:])


class Table(NamedTuple):
    """A finished table, open for reading."""

    path: Path
    manifest: dict[str, Any]
    columns: dict[str, Column]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.manifest["rows"])


def open_table(
    path: Path,
    kind: str,
    remedy: str = "run the command that makes it again",
    *,
    unfinished: bool = False,
) -> Table:
    """Open a complete (or, if asked, an unfinished) table; sizes are checked here, checksums by
    `verify_table`."""
    manifest = read_manifest(path, kind)
    if not manifest["complete"] and not unfinished:
        raise KnnlmError(f"{path} is not finished ({manifest['rows']:,} rows so far): {remedy}")
    columns = {}
    with raise_open_file_limit(path):
        for name, described in manifest["columns"].items():
            column = ColumnType(**described)
            columns[name] = Column(
                [_map(path, part, name, column) for part in manifest["parts"]], column
            )
    return Table(path, manifest, columns)


def verify_table(table: Table, names: Sequence[str] | None = None) -> int:
    """Compare the bytes of these columns (default: every file) with their checksums; returns the
    bytes read."""
    read = 0
    for part in table.manifest["parts"]:
        for name in part["files"] if names is None else [f"{n}.npy" for n in names]:
            checked_file(table.path, part, name)
            read += part["files"][name]["bytes"]
    return read


def checked_file(path: Path, part: Mapping[str, Any], name: str) -> Path:
    """The path of a part's file, after its checksum was found right."""
    file = path / "parts" / part["name"] / name
    if not file.is_file():
        raise DamagedError(f"{file} is missing: {RESTORE}")
    if checksum_file(file) != part["files"][name]["xxh3"]:
        raise DamagedError(f"{file} is damaged (its checksum differs): {RESTORE}")
    return file


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """The manifest of a table of this kind, checked."""
    file = path / MANIFEST
    if not path.is_dir():
        raise KnnlmError(f"there is no folder {path}: check the path")
    if not file.is_file():
        raise KnnlmError(f"{path} is not a {_WORDS.get(kind, kind)} (no {MANIFEST}): {_hint(path)}")
    manifest = read_json(file, newest_format=FORMAT)
    if manifest["format"] != FORMAT:
        raise KnnlmError(
            f"{path} has format {manifest['format']}, of an earlier knnlm: make it anew with this "
            "one"
        )
    if manifest.get("kind") != kind:
        raise KnnlmError(
            f"{path} holds {manifest.get('kind', 'something else')}, not {kind}: check the path"
        )
    return manifest


def _hint(path: Path) -> str:
    if (path / "config.json").is_file():
        return "it is a model folder, make a store from it with 'knnlm build'"
    return "check the path"


def _map(path: Path, part: Mapping[str, Any], name: str, column: ColumnType) -> NDArray[Any]:
    file = path / "parts" / part["name"] / f"{name}.npy"
    wanted = part["files"][file.name]["bytes"]
    if not file.is_file():
        raise DamagedError(f"{file} is missing: {RESTORE}")
    if file.stat().st_size != wanted:
        raise DamagedError(
            f"{file} is damaged ({file.stat().st_size:,} bytes, {wanted:,} expected): {RESTORE}"
        )
    try:
        values: np.memmap[Any, np.dtype[Any]] = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except (
        Exception
    ) as error:  # NumPy parses headers as Python: a flipped bit may raise almost anything
        raise DamagedError(f"{file} is damaged (bad header): {RESTORE}") from error
    if values.dtype != np.dtype(column.dtype) or values.shape != column.shape(part["rows"]):
        raise DamagedError(f"{file} is damaged (shape {values.shape}): {RESTORE}")
    if values.offset + values.nbytes != wanted:
        raise DamagedError(f"{file} is damaged (its header has another length): {RESTORE}")
    return values


def _describe(columns: Mapping[str, ColumnType]) -> dict[str, dict[str, Any]]:
    return {name: column._asdict() for name, column in columns.items()}


def _difference(found: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    for key in ("columns", "format"):
        if found[key] != head[key]:
            return f"other {key}"
    mine, theirs = head["meta"], found["meta"]
    return f"other {' and '.join(k for k in {**mine, **theirs} if mine.get(k) != theirs.get(k))}"
