"""Which rows of a store an update sees: a pure function of (seed, step), in bounded memory.

Each epoch shuffles blocks of neighbouring rows, reads as many as fit the buffer, and shuffles the
rows among them. Disks are read in long runs, and a store of any size needs no more memory than the
buffer. A resumed run repeats itself exactly."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore.table import Column, ColumnType
from knnlm.errors import UsageError

BLOCK_ROWS = 1 << 10
BUFFER_ROWS = 1 << 18


class Batch(NamedTuple):
    """States (B, D) in fp32, those of several keys one after the other; their tokens (B,); and more
    of the rows."""

    states: torch.Tensor
    targets: torch.Tensor
    more: dict[str, torch.Tensor]


class RowBatches:
    """`at(step)` gives the batch of an update. Steps are best asked for in order: one buffer is
    kept."""

    def __init__(
        self,
        states: Sequence[Column],
        targets: NDArray[np.integer],
        batch: int,
        seed: int,
        *,
        more: Mapping[str, Column] | None = None,
        buffer_rows: int = BUFFER_ROWS,
    ) -> None:
        """`more` are columns that a loss needs beside states and targets."""
        self.rows = len(targets)
        if self.rows < batch:
            raise UsageError(
                f"{self.rows:,} rows are fewer than one batch of {batch:,}: give a larger store"
            )
        self.states, self.targets, self.batch, self.seed = states, targets, batch, seed
        self.more = more or {}
        self.blocks = -(-self.rows // BLOCK_ROWS)
        at_once = max(1, -(-batch // BLOCK_ROWS), buffer_rows // BLOCK_ROWS)
        self.groups = max(1, self.blocks // at_once)  # the last takes what is left over
        self._counts = [max(1, rows // batch) for rows in self._group_rows()]
        self.steps_per_epoch = sum(self._counts)
        self._held: tuple[tuple[int, int], Batch] | None = None

    def at(self, step: int) -> Batch:
        """The rows of update `step` (from 0)."""
        epoch, place = divmod(step, self.steps_per_epoch)
        group = 0
        while place >= self._counts[group]:
            place -= self._counts[group]
            group += 1
        held = self._buffer(epoch, group)
        part = slice(place * self.batch, (place + 1) * self.batch)
        more = {name: values[part] for name, values in held.more.items()}
        return Batch(held.states[part].float(), held.targets[part], more)

    def _group_rows(self) -> list[int]:
        """Rows of each group at least: the short last block may be in any of them."""
        sizes = [len(part) for part in np.array_split(np.arange(self.blocks), self.groups)]
        short = self.blocks * BLOCK_ROWS - self.rows
        return [size * BLOCK_ROWS - short for size in sizes]

    def _buffer(self, epoch: int, group: int) -> Batch:
        if self._held is None or self._held[0] != (epoch, group):
            order = np.random.default_rng([self.seed, epoch]).permutation(self.blocks)
            mine = np.sort(np.array_split(order, self.groups)[group])
            ids = np.concatenate(
                [np.arange(b * BLOCK_ROWS, min((b + 1) * BLOCK_ROWS, self.rows)) for b in mine]
            )
            np.random.default_rng([self.seed, epoch, group + 1]).shuffle(ids)
            states = np.concatenate(
                [column.gather(ids) for column in self.states], axis=1
            )  # as stored: half of fp32
            more = {
                name: torch.from_numpy(column.gather(ids)) for name, column in self.more.items()
            }
            targets = torch.from_numpy(self.targets[ids].astype(np.int64))
            self._held = ((epoch, group), Batch(torch.from_numpy(states), targets, more))
        return self._held[1]


def in_memory(values: NDArray[Any]) -> Column:
    """An array as a column."""
    return Column([values], ColumnType(values.dtype.str, values.shape[1] if values.ndim > 1 else 0))
