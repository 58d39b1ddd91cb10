"""The table format, and reading it: a folder of immutable parts of standard .npy columns, and one
manifest.

    TABLE/manifest.json               format, meta, columns, parts with rows, sizes and checksums
    TABLE/parts/000000/<column>.npy   (rows,) or (rows, width), C order

Rows exist once a manifest names their part, and the manifest is replaced in one step after the
part's bytes are on disk: a killed writer loses what it appended since its last commit or
checkpoint, and nothing else. Readers memory-map.
Nothing is ever unpickled. Entries and neighbor caches are both tables."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.manifest import RESTORE, check_manifest
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import raise_open_file_limit, read_json
from knnlm.formats import visible


class ColumnType(NamedTuple):
    """The type of a column: NumPy's dtype, and numbers in a row (0: one number, not a vector)."""

    dtype: str
    width: int

    def shape(self, rows: int) -> tuple[int, ...]:
        """Shape of an array of so many rows."""
        return (rows, self.width) if self.width else (rows,)


_VERIFYING = threading.RLock()  # cores that begin with the same column do not all verify it


class Column:
    """A column over all parts, memory-mapped; reading copies only the rows asked for.

    Its bytes are compared with their checksums when they are first used, and not again.

    Attributes:
        type: Its dtype and width.
        starts: The first row of each part, and after them the number of rows.
        longest: The greatest squared length of a row, once somebody has asked for it.
    """

    def __init__(
        self,
        parts: Sequence[NDArray[Any]],
        column: ColumnType,
        verify: Callable[[], object] | None = None,
    ) -> None:
        self._parts, self.type = list(parts), column
        self.starts = np.cumsum([0] + [len(p) for p in self._parts])
        self.longest: float | None = None
        self._unverified = verify

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def parts(self) -> list[NDArray[Any]]:
        """The arrays of the parts: all that is read of a column comes from here.

        Raises:
            DamagedError: They are not what was written.
        """
        if self._unverified is not None:
            self.verify()
        return self._parts

    def verify(self) -> None:
        """Compare its bytes with their checksums, unless that has been done since it was opened.

        Raises:
            DamagedError: They are not what was written.
        """
        with _VERIFYING:
            if self._unverified is not None:
                self._unverified()
                self.mark_verified()

    def mark_verified(self) -> None:
        """Note that its bytes are what was written: somebody has just compared them."""
        self._unverified = None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop-1, as far as they exist."""
        rows = self.view(start, stop)
        return rows if rows.flags.owndata else np.array(rows)

    def view(self, start: int, stop: int) -> NDArray[Any]:
        """The same where they lie, not to be written to; copied only where two parts meet."""
        start, stop = max(start, 0), min(stop, len(self))
        slices = [
            part[max(start - begin, 0) : stop - begin]
            for part, begin in zip(self.parts, self.starts[:-1], strict=True)
            if begin < stop and begin + len(part) > start
        ]
        if len(slices) == 1:
            return np.asarray(slices[0])
        return np.concatenate(slices) if slices else np.empty(self.type.shape(0), self.type.dtype)

    def all(self) -> NDArray[Any]:
        """The whole column, in memory."""
        return self.read(0, len(self))

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Pairs of (first row, rows), in order, `size` rows at a time."""
        for start in range(0, len(self), size):
            yield start, self.read(start, start + size)

    def slices(self, slices: Sequence[tuple[int, int]]) -> "Column":
        """A column of some rows, where they lie.

        Args:
            slices: (first row, how many), in ascending order.
        """
        parts = []
        for start, count in slices:
            first = int(np.searchsorted(self.starts, start, side="right")) - 1
            last = int(np.searchsorted(self.starts, start + count, side="left"))
            for part, begin in zip(self._parts[first:last], self.starts[first:last], strict=True):
                parts.append(part[max(start - begin, 0) : start + count - begin])
        # verified as a whole, once, when rows of either are first used
        return Column([part for part in parts if len(part)], self.type, self.verify)

    def gather(self, ids: NDArray[np.integer], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows by number.

        Args:
            ids: Row numbers, of any shape. Files are read in the order of their rows.
            out: Rows (ids.size, width) to write into, for ids in ascending order; new by default.

        Returns:
            Rows (*ids.shape, width), or ids.shape in a column without width.

        Raises:
            IndexError: A row does not exist; -1 is not the last row.
        """
        flat = ids.ravel()
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self):
            raise IndexError(f"rows {flat.min()} … {flat.max()} asked for, there are {len(self)}")
        shape = (*ids.shape, *self.type.shape(0)[1:])
        rows = np.empty(self.type.shape(len(flat)), self.type.dtype) if out is None else out
        if len(self.parts) > 1 and (flat[1:] < flat[:-1]).any():
            order = np.argsort(flat, kind="stable")
            rows[order] = self.gather(flat[order])
            return rows.reshape(shape)
        one = len(self.parts) == 1
        cuts = [0, len(flat)] if one else np.searchsorted(flat, self.starts)
        for part, begin, low, high in zip(
            self.parts, self.starts[:-1], cuts[:-1], cuts[1:], strict=True
        ):
            if high > low:
                # all rows exist; in another mode NumPy would write to a copy first
                np.take(part, flat[low:high] - begin, axis=0, out=rows[low:high], mode="clip")
        return rows.reshape(shape)


class Table(NamedTuple):
    """A table open for reading: its folder, its manifest and its columns."""

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
    """Open a table for reading. Sizes of files are checked here, checksums by `verify_table`.

    Args:
        path: The table's folder.
        kind: What the table must hold.
        remedy: What to do if it is unfinished, for the error.
        unfinished: Whether to open an unfinished table too, with the rows committed so far.

    Raises:
        KnnlmError: There is no such table, or it is unfinished.
        DamagedError: A file is missing, or of another size or shape.
    """
    manifest = read_manifest(path, kind)
    if not manifest["complete"] and not unfinished:
        raise KnnlmError(f"{path} is not finished ({manifest['rows']:,} rows so far): {remedy}")
    columns = {}
    with raise_open_file_limit(path):
        for name, described in manifest["columns"].items():
            column = ColumnType(described["dtype"], described["width"])
            parts = [_memory_map(path, part, name, column) for part in manifest["parts"]]
            columns[name] = Column(parts, column, partial(_verify_column, path, manifest, name))
    return Table(path, manifest, columns)


def verify_table(table: Table, names: Sequence[str] | None = None) -> int:
    """Compare columns with their checksums, also those that were compared before.

    Args:
        table: An open table.
        names: Which columns; None means every file of every part.

    Returns:
        How many bytes were read.

    Raises:
        DamagedError: A file is missing, or not what was written.
    """
    read = 0
    for part in table.manifest["parts"]:
        for name in part["files"] if names is None else [f"{n}.npy" for n in names]:
            read += checked_file(table.path, part, name).stat().st_size
    for name in table.columns if names is None else names:
        table.columns[name].mark_verified()
    return read


def _verify_column(path: Path, manifest: Mapping[str, Any], name: str) -> None:
    for part in manifest["parts"]:
        checked_file(path, part, f"{name}.npy")


def _memory_map(path: Path, part: Mapping[str, Any], name: str, column: ColumnType) -> NDArray[Any]:
    """One column of a part, refused unless its file has the size and header that were written."""
    file = path / "parts" / part["name"] / f"{name}.npy"
    size = part["files"][file.name]["bytes"]
    if not file.is_file():
        raise DamagedError(f"{file} is missing: {RESTORE}")
    if file.stat().st_size != size:
        raise DamagedError(
            f"{file} is damaged ({file.stat().st_size:,} bytes, {size:,} expected): {RESTORE}"
        )
    try:
        values: np.memmap[Any, np.dtype[Any]] = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:
        # NumPy parses headers as Python: a flipped bit may raise almost anything
        raise DamagedError(f"{file} is damaged (bad header): {RESTORE}") from error
    if values.dtype != np.dtype(column.dtype) or values.shape != column.shape(part["rows"]):
        raise DamagedError(f"{file} is damaged (shape {values.shape}): {RESTORE}")
    if values.offset + values.nbytes != size:
        raise DamagedError(f"{file} is damaged (its header has another length): {RESTORE}")
    return values


FORMAT = 2
MANIFEST, CHECKPOINT = "manifest.json", "open.json"
_KIND_NAMES = {"states": "datastore", "neighbors": "neighbor cache"}
_SHOWN_KIND = 40  # characters: it may be anything


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
    name = _KIND_NAMES.get(kind, kind)
    if not path.is_dir():
        raise KnnlmError(f"there is no {name} {path}: check the path")
    if not file.is_file():
        raise KnnlmError(f"{path} is not a {name} (no {MANIFEST}): {_hint(path)}")
    manifest = read_json(file, newest_format=FORMAT)
    if isinstance(number := manifest.get("format"), int) and number != FORMAT:
        raise KnnlmError(
            f"{path} has format {number}, of an earlier knnlm: make it again with this one"
        )
    if (held := manifest.get("kind", "something else")) != kind:
        shown = visible(str(held))[:_SHOWN_KIND]
        raise KnnlmError(f"{path} holds {shown}, not {kind}: check the path")
    check_manifest(manifest, file)
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
    if name not in part["files"] or not file.is_file():
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
        return "it is a model folder, make a datastore from it with `Datastore.build`"
    if (path / CHECKPOINT).is_file():
        return "its build has not finished, run the same `Datastore.build` again to resume it"
    return "check the path"
