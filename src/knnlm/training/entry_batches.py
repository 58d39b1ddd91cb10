"""Which entries of a datastore an update sees: a pure function of (seed, step), in bounded memory.

Each epoch shuffles blocks of consecutive entries, reads as many blocks as fit the buffer, and
shuffles the entries among them: disks are read in long runs, and a datastore of any size needs no
more memory than the buffer. A resumed run repeats itself exactly."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column, ColumnType
from knnlm.errors import UsageError

BLOCK_ENTRIES = 1 << 10
BUFFER_ENTRIES = 1 << 18


class Batch(NamedTuple):
    """Some entries: hidden states (B, D), those of several keys side by side; targets (B,); and
    the columns that a loss needs beside them."""

    states: torch.Tensor
    targets: torch.Tensor
    more: dict[str, torch.Tensor]


class EntryBatches:
    """Batches of entries. Ask for steps in order: one buffer is kept.

    Args:
        states: The key columns to learn from.
        targets: The next token of every entry.
        batch: Entries in an update.
        seed: Decides the order.
        more: Columns that a loss needs beside states and targets.
        buffer_entries: Entries held in memory, about.
    """

    def __init__(
        self,
        states: Sequence[Column],
        targets: NDArray[np.integer],
        batch: int,
        seed: int,
        *,
        more: Mapping[str, Column] | None = None,
        buffer_entries: int = BUFFER_ENTRIES,
    ) -> None:
        self.count = len(targets)
        if self.count < batch:
            raise UsageError(
                f"{self.count:,} entries are fewer than one batch of {batch:,}: give a larger "
                "datastore"
            )
        self.states, self.targets, self.batch, self.seed = states, targets, batch, seed
        self.more = more or {}
        self.blocks = -(-self.count // BLOCK_ENTRIES)
        per_buffer = max(1, -(-batch // BLOCK_ENTRIES), buffer_entries // BLOCK_ENTRIES)
        self.buffers = max(1, self.blocks // per_buffer)  # the last takes what is left over
        self._steps = [max(1, entries // batch) for entries in self._buffer_sizes()]
        self.steps_per_epoch = sum(self._steps)
        self._held: tuple[tuple[int, int], Batch] | None = None

    def at(self, step: int) -> Batch:
        """The entries of update `step` (from 0), states in fp32."""
        epoch, step_of_buffer = divmod(step, self.steps_per_epoch)
        buffer = 0
        while step_of_buffer >= self._steps[buffer]:
            step_of_buffer -= self._steps[buffer]
            buffer += 1
        held = self._read(epoch, buffer)
        part = slice(step_of_buffer * self.batch, (step_of_buffer + 1) * self.batch)
        more = {name: values[part] for name, values in held.more.items()}
        return Batch(held.states[part].float(), held.targets[part], more)

    def _buffer_sizes(self) -> list[int]:
        """Entries of each buffer at least: the short last block may be in any of them."""
        sizes = [len(part) for part in np.array_split(np.arange(self.blocks), self.buffers)]
        short = self.blocks * BLOCK_ENTRIES - self.count
        return [size * BLOCK_ENTRIES - short for size in sizes]

    def _read(self, epoch: int, buffer: int) -> Batch:
        """The shuffled entries of a buffer, kept until another is asked for."""
        if self._held is None or self._held[0] != (epoch, buffer):
            ids = self._ids(epoch, buffer)
            # as stored: half of fp32
            states = np.concatenate([column.gather(ids) for column in self.states], axis=1)
            more = {
                name: torch.from_numpy(column.gather(ids)) for name, column in self.more.items()
            }
            targets = torch.from_numpy(self.targets[ids].astype(np.int64))
            self._held = ((epoch, buffer), Batch(torch.from_numpy(states), targets, more))
        return self._held[1]

    def _ids(self, epoch: int, buffer: int) -> NDArray[np.int64]:
        order = np.random.default_rng([self.seed, epoch]).permutation(self.blocks)
        blocks = np.sort(np.array_split(order, self.buffers)[buffer])
        ids = np.concatenate([BLOCK_ENTRIES * block + np.arange(BLOCK_ENTRIES) for block in blocks])
        ids = ids[ids < self.count]
        np.random.default_rng([self.seed, epoch, buffer + 1]).shuffle(ids)
        return ids


def in_memory(values: NDArray[Any]) -> Column:
    """An array as a column."""
    return Column([values], ColumnType(values.dtype.str, values.shape[1] if values.ndim > 1 else 0))
