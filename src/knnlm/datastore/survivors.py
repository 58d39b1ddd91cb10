"""Which entries of a table are left once documents were forgotten, and what they are called.

Rows of a table never move, so an index names them as long as it lives. Everybody else sees the
datastore as if it had been built from the documents that are left: entries are counted without the
forgotten ones, and columns do not have them. Documents are contiguous, so both are a few slices.

    row of the table    0 1 2 3 4 5 6 7 8 9
    forgotten               x x       x
    entry               0 1     2 3 4   5 6
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import Column

GONE = -1
"""What a forgotten row is called."""


class ForgottenDocument(NamedTuple):
    """A document that was forgotten, as the manifest holds it.

    Attributes:
        document: Its number in the table.
        start: Its first row.
        stop: The row after its last.
        words: How many words its targets spell.
    """

    document: int
    start: int
    stop: int
    words: int


class Survivors(NamedTuple):
    """The rows of a table that are left, as slices.

    Attributes:
        starts: (R,) the first row of each slice.
        first_entries: (R + 1,) the entry that each slice begins with, and how many there are.
        rows: How many rows the table has.
    """

    starts: NDArray[np.int64]
    first_entries: NDArray[np.int64]
    rows: int

    @classmethod
    def without(cls, rows: int, gone: Sequence[tuple[int, int]]) -> Self:
        """What is left of a table without some slices.

        Args:
            rows: How many rows the table has.
            gone: (start, stop) of each slice, in any order, none over another.
        """
        slices, begin = [], 0
        for start, stop in sorted(gone):
            if start > begin:
                slices.append((begin, start))
            begin = max(begin, stop)
        if begin < rows:
            slices.append((begin, rows))
        starts = np.array([start for start, _ in slices], np.int64)
        lengths = np.array([stop - start for start, stop in slices], np.int64)
        return cls(starts, np.concatenate([[0], np.cumsum(lengths)]), rows)

    @property
    def entry_count(self) -> int:
        """How many entries there are."""
        return int(self.first_entries[-1])

    def entry_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """The entries of some rows; GONE for a forgotten row, and for a negative one."""
        if not len(self.starts):
            return np.full(rows.shape, GONE, np.int64)
        at = np.maximum(np.searchsorted(self.starts, rows, side="right") - 1, 0)
        inside = rows - self.starts[at]
        left = (inside >= 0) & (inside < np.diff(self.first_entries)[at])
        return np.where(left, self.first_entries[at] + inside, GONE)

    def first_from(self, row: int) -> int:
        """The first entry whose row is `row` or a later one; the number of entries if none is."""
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        if at < 0:
            return 0
        return int(min(self.first_entries[at] + row - self.starts[at], self.first_entries[at + 1]))

    def column(self, column: Column) -> Column:
        """A column of the entries, where they lie."""
        lengths = np.diff(self.first_entries)
        return column.slices(list(zip(self.starts.tolist(), lengths.tolist(), strict=True)))
