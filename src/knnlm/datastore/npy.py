"""A .npy file that grows: rows are streamed, and the header, of constant length, is rewritten at
the end. Standard format 1.0, readable by any NumPy."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NpyWriter:
    """Streams rows of one dtype and width to a file; `close` makes them durable.

    Until then the header says that there are no rows.

    Args:
        path: The file; one that exists is overwritten.
        dtype: NumPy's name of the dtype, with its byte order.
        width: Numbers in a row; 0 writes one number a row, as a vector.
    """

    def __init__(self, path: Path, dtype: str, width: int) -> None:
        self.dtype, self.width, self.rows = np.dtype(dtype), width, 0
        self._file = path.open("wb")
        self._file.write(self._header())

    def write(self, values: NDArray[Any]) -> None:
        """Append rows.

        Raises:
            ValueError: The rows have another width, or a value that the dtype cannot hold exactly.
        """
        row_shape = (self.width,) if self.width else ()
        if values.shape[1:] != row_shape:
            raise ValueError(f"rows of shape {values.shape[1:]} given, {row_shape} expected")
        with np.errstate(over="ignore", invalid="ignore"):  # such values are refused just below
            converted = np.ascontiguousarray(values, dtype=self.dtype)
        exact = converted.dtype == values.dtype or np.array_equal(converted, values, equal_nan=True)
        if not exact:
            raise ValueError(f"some values do not fit {self.dtype}")
        self._file.write(converted.data)
        self.rows += len(values)

    def close(self) -> None:
        """Write the true header and flush everything to disk."""
        self._file.seek(0)
        self._file.write(self._header())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Close an unfinished file, even on a full disk; what it holds will be overwritten."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _header(self) -> bytes:
        # NumPy pads headers so that a growing first axis keeps their length
        shape = (self.rows, self.width) if self.width else (self.rows,)
        head = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, head)
        return buffer.getvalue()
