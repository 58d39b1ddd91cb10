"""Writing a table: rows are appended to an open part and become visible, part by part, when the
manifest that names the part is renamed into place. A killed writer resumes from there, or from a
later checkpoint:

    TABLE/open.json    how many rows of the open part are on disk, and their checksums

Readers do not look at it. It only saves a resumed writer from appending those rows again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from knnlm.datastore.manifest import check_checkpoint
from knnlm.datastore.npy import NpyWriter
from knnlm.datastore.table import (
    CHECKPOINT,
    FORMAT,
    MANIFEST,
    ColumnType,
    difference,
    read_manifest,
)
from knnlm.disk import explain_os_errors, refuse_links, remove_left_over, sync_folder
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import describe_files, fingerprint, read_json, write_bytes, write_json
from knnlm.progress import log


class OtherTable(KnnlmError):
    """A folder holds a table that was made from something else."""

    def __init__(
        self, path: Path, difference: str, advice: str = "choose another folder or delete that one"
    ) -> None:
        self.path, self.difference = path, difference
        super().__init__(f"{path} was made from something else ({difference}): {advice}")


class TableWriter:
    """Appends rows to a table, and resumes one that is unfinished.

    Rows are invisible until `commit`, which makes them durable. In a folder that holds an
    unfinished table with the same `columns` and `meta`, the writer continues it: `rows` says how
    many rows are committed, and `pending` how many more a checkpoint kept once the writer is
    entered. The caller continues after those. As a context manager it closes the files of the open
    part at the end.

    Args:
        path: The table's folder. Take its write lock first (`knnlm.locks.write_lock`).
        kind: What the table holds; a reader must ask for the same kind.
        columns: Name and type of every column.
        meta: What the table was made from, as JSON.

    Raises:
        KnnlmError: The folder holds a table of another kind, or made from something else.

    Example:
        >>> with TableWriter(path, "squares", {"square": ColumnType("<i8", 0)}, {}) as writer:
        ...     for start in range(writer.rows + writer.pending, 1_000_000, 1000):
        ...         writer.append({"square": np.arange(start, start + 1000) ** 2})
        ...         writer.commit()
        ...     writer.finish({})
    """

    def __init__(
        self, path: Path, kind: str, columns: Mapping[str, ColumnType], meta: Mapping[str, Any]
    ) -> None:
        self.path, self.columns = path, dict(columns)
        head = {
            "format": FORMAT,
            "kind": kind,
            "meta": dict(meta),
            "columns": {name: column._asdict() for name, column in columns.items()},
        }
        self.manifest = self._stored(head) or {**head, "complete": False, "rows": 0, "parts": []}
        self._made_from = fingerprint(head)
        self.note: dict[str, Any] = {}
        """What checkpoints say besides, for whoever made the table."""
        self._open: dict[str, NpyWriter] = {}
        self._open_rows = 0

    def __enter__(self) -> Self:
        if not self.manifest["complete"]:
            with explain_os_errors(self.path):
                self._continue_open_part()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._open.values():
            writer.discard()

    @property
    def rows(self) -> int:
        """How many rows are committed."""
        return int(self.manifest["rows"])

    @property
    def pending(self) -> int:
        """How many rows were appended since the last commit."""
        return self._open_rows

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add rows, invisible until `commit`.

        Args:
            rows: An array for every column, all of the same length.

        Raises:
            ValueError: Columns are missing, unknown, of different lengths or of another type.
            KnnlmError: The disk is full, or does not permit writing.
        """
        if rows.keys() != self.columns.keys():
            raise ValueError(f"columns {sorted(rows)} given, {sorted(self.columns)} expected")
        counts = {len(values) for values in rows.values()}
        if len(counts) != 1:
            raise ValueError(
                f"columns of different lengths: { {n: len(v) for n, v in rows.items()} }"
            )
        with explain_os_errors(self.path):
            if not self._open:
                self._open_part()
            for name, values in rows.items():
                self._open[name].write(values)
        self._open_rows += counts.pop()

    def pending_rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop-1 of a column, counted from the first that is not committed."""
        return self._open[name].read(start, stop)

    def checkpoint(self) -> None:
        """Keep the rows appended so far for a writer that resumes; readers still do not see them.

        After an append that was interrupted this does nothing: an older checkpoint stays.
        """
        if not self._open_rows or any(w.rows != self._open_rows for w in self._open.values()):
            return
        with explain_os_errors(self.path):
            for writer in self._open.values():
                writer.flush()
            folder = self._folder(len(self.manifest["parts"]))
            for changed in (folder, folder.parent, self.path):
                sync_folder(changed)
        write_json(
            self.path / CHECKPOINT,
            {
                "format": FORMAT,
                "made_from": self._made_from,
                "part": len(self.manifest["parts"]),
                "rows": self._open_rows,
                "columns": {name: writer.checksum for name, writer in self._open.items()},
                **({"note": self.note} if self.note else {}),
            },
        )

    def commit(self, extra: Mapping[str, bytes] | None = None) -> None:
        """Make the rows so far visible and durable, as a new part; without any, do nothing.

        Args:
            extra: Further files to keep in that part, by name.
        """
        if not self._open_rows:
            return
        folder = self._folder(len(self.manifest["parts"]))
        with explain_os_errors(self.path):
            for writer in self._open.values():
                writer.close()
            for name, data in (extra or {}).items():
                write_bytes(folder / name, data)
            files = describe_files(folder, sorted(file.name for file in folder.iterdir()))
            for changed in (folder, folder.parent, self.path):
                sync_folder(changed)
        part = {"name": folder.name, "rows": self._open_rows, "files": files}
        self._publish(
            {
                **self.manifest,
                "parts": [*self.manifest["parts"], part],
                "rows": self.rows + self._open_rows,
            }
        )
        self._open, self._open_rows = {}, 0
        self._drop_checkpoint()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Commit the open rows and mark the table complete.

        Args:
            summary: What is known only now, as JSON; it becomes part of the manifest.
        """
        self.commit()
        self._drop_checkpoint()  # of a writer that was killed just after its last commit
        self._publish({**self.manifest, "complete": True, "summary": dict(summary)})

    def _publish(self, manifest: dict[str, Any]) -> None:
        write_json(self.path / MANIFEST, manifest)
        self.manifest = manifest

    def _open_part(self) -> None:
        folder = self._folder(len(self.manifest["parts"]))
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.iterdir():
            left_over.unlink()
        for name, column in self.columns.items():
            self._open[name] = NpyWriter(folder / f"{name}.npy", column.dtype, column.width)

    def _continue_open_part(self) -> None:
        """Take up the open part of an earlier writer at its checkpoint, if every byte is there."""
        kept = self._read_checkpoint()
        if kept is None:
            return
        folder = self._folder(len(self.manifest["parts"]))
        files = {name: folder / f"{name}.npy" for name in self.columns}
        if any(file.is_symlink() or not file.is_file() for file in files.values()):
            return
        for name, column in self.columns.items():
            self._open[name] = NpyWriter(
                files[name], column.dtype, column.width, continue_after=kept["rows"]
            )
        sums = {name: writer.checksum for name, writer in self._open.items()}
        whole = all(writer.rows == kept["rows"] for writer in self._open.values())
        if whole and sums == kept["columns"]:
            self._open_rows = int(kept["rows"])
            for left_over in folder.iterdir():  # of a commit that was interrupted
                if left_over.stem not in self.columns:
                    left_over.unlink()
            return
        for writer in self._open.values():
            writer.discard()
        self._open = {}

    def _drop_checkpoint(self) -> None:
        with explain_os_errors(self.path):
            (self.path / CHECKPOINT).unlink(missing_ok=True)
            remove_left_over(self.path / CHECKPOINT)

    def _read_checkpoint(self) -> dict[str, Any] | None:
        """The checkpoint of this table's open part; None if it is damaged or of another part."""
        file = self.path / CHECKPOINT
        try:
            kept = check_checkpoint(read_json(file, newest_format=FORMAT), file)
        except (DamagedError, FileNotFoundError):
            return None
        if kept["made_from"] != self._made_from:
            log.warning(
                f"note: {self.path} holds {kept['rows']:,} entries of another text or other "
                "settings, begun and not finished; they are replaced"
            )
            return None
        return kept if kept["part"] == len(self.manifest["parts"]) else None

    def _folder(self, number: int) -> Path:
        """The folder of a part, to write into."""
        folder = self.path / "parts" / f"{number:06d}"
        refuse_links(folder, below=self.path)
        return folder

    def _stored(self, head: dict[str, Any]) -> dict[str, Any] | None:
        """The manifest that the folder holds already, if it begins as `head` does."""
        if not (self.path / MANIFEST).is_file():
            return None
        stored = read_manifest(self.path, head["kind"])
        if {key: stored[key] for key in head} != head:
            raise OtherTable(self.path, difference(stored, head))
        return stored
