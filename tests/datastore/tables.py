"""A small table in which no two rows are alike."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import ColumnType
from knnlm.datastore.table_writer import TableWriter
from knnlm.locks import write_lock

KIND = "things"
COLUMNS = {"state": ColumnType("<f2", 3), "number": ColumnType("<i4", 0)}
ROWS, PART = 18, 6


def rows(start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Rows start … stop-1."""
    number = np.arange(start, stop, dtype="<i4")
    return {"state": (number[:, None] + [0.0, 0.25, 0.5]).astype("<f2"), "number": number}


def write_table(folder: Path) -> None:
    """Three parts of two appends each, all but the first with an extra file; goes on where an
    earlier call died."""
    with write_lock(folder), TableWriter(folder, KIND, COLUMNS, {"a": 1}) as writer:
        for start in range(writer.rows, ROWS, PART):
            writer.append(rows(start, start + 2))
            writer.append(rows(start + 2, start + PART))
            writer.commit({"extra.json": f"[{start}]".encode()} if start else None)
        writer.finish({"words": 1})
