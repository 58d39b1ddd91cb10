"""A .npy file that grows: rows are streamed, and the header, of constant length, is rewritten at
the end. Standard format 1.0, readable by any NumPy. A file that was not finished can be continued
after the rows that a checkpoint of it names."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

_BLOCK = 1 << 24


class NpyWriter:
    """Streams rows of one dtype and width to a file; `close` makes them durable.

    Until then the header says that there are no rows.

    Args:
        path: The file. It must not exist yet, unless it is continued.
        dtype: NumPy's name of the dtype, with its byte order.
        width: Numbers in a row; 0 writes one number a row, as a vector.
        continue_after: Rows of an unfinished file to keep; what follows them is cut off.
    """

    def __init__(self, path: Path, dtype: str, width: int, continue_after: int = 0) -> None:
        self.dtype, self.width, self.rows = np.dtype(dtype), width, 0
        self._digest = xxhash.xxh3_64()
        if continue_after:
            self._file = path.open("r+b")
            self._keep(continue_after)
        else:
            self._file = path.open("x+b")  # x: follows no link
            self._file.write(self._header())

    @property
    def checksum(self) -> str:
        """XXH3-64 of the rows so far, without the header."""
        return self._digest.hexdigest()

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
        self.rows += len(values)  # first: a checkpoint after Ctrl-C must not count too few
        self._digest.update(converted.data)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop-1, as far as they are written."""
        stop = min(stop, self.rows)
        shape = (stop - start, self.width) if self.width else (stop - start,)
        self._file.seek(len(self._header()) + start * self._row_bytes)
        data = self._file.read((stop - start) * self._row_bytes)
        self._file.seek(0, os.SEEK_END)
        return np.frombuffer(data, self.dtype).reshape(shape)

    def flush(self) -> None:
        """Flush the rows so far to disk, unless `close` has done so."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())

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

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * max(self.width, 1)

    def _keep(self, rows: int) -> None:
        """Read `rows` rows for their checksum, and cut off what follows them."""
        left = rows * self._row_bytes
        self._file.seek(len(self._header()))
        while left and (block := self._file.read(min(left, _BLOCK))):
            self._digest.update(block)
            left -= len(block)
        self.rows = rows - -(-left // self._row_bytes)
        self._file.seek(len(self._header()) + self.rows * self._row_bytes)
        self._file.truncate()

    def _header(self) -> bytes:
        # NumPy pads headers so that a growing first axis keeps their length
        shape = (self.rows, self.width) if self.width else (self.rows,)
        head = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, head)
        return buffer.getvalue()
