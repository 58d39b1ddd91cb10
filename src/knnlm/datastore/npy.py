"""A .npy file that grows: rows are streamed and the header, of constant length, is rewritten at the
end.

Standard format 1.0, readable by any NumPy. Knows nothing of tables.
"""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NpyWriter:
    """Streams rows of one dtype and width to a file; `close` makes them durable."""

    def __init__(self, path: Path, dtype: str, width: int) -> None:
        self.dtype, self.width, self.rows = np.dtype(dtype), width, 0
        self._file = path.open("wb")
        self._file.write(self._header())

    def write(self, values: NDArray[Any]) -> None:
        """Append rows; a value that the dtype cannot hold exactly is an error, never a wrong
        number."""
        wanted = (self.width,) if self.width else ()
        if values.shape[1:] != wanted:
            raise ValueError(f"rows of shape {values.shape[1:]} given, {wanted} expected")
        with np.errstate(over="ignore", invalid="ignore"):  # found just below
            fitted = np.ascontiguousarray(values, dtype=self.dtype)
        if fitted.dtype != values.dtype and not np.array_equal(fitted, values, equal_nan=True):
            raise ValueError(f"some values do not fit {self.dtype}")
        self._file.write(fitted.data)
        self.rows += len(values)

    def close(self) -> None:
        """Write the true header and flush everything to disk."""
        self._file.seek(0)
        self._file.write(self._header())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Close an unfinished file, whatever state the disk is in; what it holds is a left-over."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _header(self) -> bytes:
        # NumPy pads headers so that a growing first axis keeps their length
        shape = (self.rows, self.width) if self.width else (self.rows,)
        head = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, head)
        return buffer.getvalue()
