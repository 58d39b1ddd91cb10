"""Which rows of a store an update sees: a pure function of (seed, step), in bounded memory.

Each epoch shuffles blocks of neighbouring rows, reads as many as fit the buffer, and shuffles the rows among them.
Disks are read in long runs, and a store of any size needs no more memory than the buffer. A resumed run repeats itself
exactly.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.errors import UsageError
from knnlm.states.table import Column

BLOCK_ROWS = 1 << 10
BUFFER_ROWS = 1 << 18


class Batch(NamedTuple):
    """States (B, D) in fp32 and their tokens (B,)."""

    states: torch.Tensor
    targets: torch.Tensor


class RowBatches:
    """`at(step)` gives the batch of an update. Steps are best asked for in order: one buffer is kept."""

    def __init__(
        self, states: Column, targets: NDArray[np.integer], batch: int, seed: int, buffer_rows: int = BUFFER_ROWS
    ) -> None:
        if len(states) < batch:
            raise UsageError(f"{len(states):,} rows are fewer than one batch of {batch:,}: give a larger store")
        self.states, self.targets, self.batch, self.seed = states, targets, batch, seed
        self.blocks = -(-len(states) // BLOCK_ROWS)
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
        return Batch(held.states[part].float(), held.targets[part])

    def _group_rows(self) -> list[int]:
        """Rows of each group at least: the short last block may be in any of them."""
        sizes = [len(part) for part in np.array_split(np.arange(self.blocks), self.groups)]
        short = self.blocks * BLOCK_ROWS - len(self.states)
        return [size * BLOCK_ROWS - short for size in sizes]

    def _buffer(self, epoch: int, group: int) -> Batch:
        if self._held is None or self._held[0] != (epoch, group):
            order = np.random.default_rng([self.seed, epoch]).permutation(self.blocks)
            mine = np.sort(np.array_split(order, self.groups)[group])
            ids = np.concatenate([np.arange(b * BLOCK_ROWS, min((b + 1) * BLOCK_ROWS, len(self.states))) for b in mine])
            np.random.default_rng([self.seed, epoch, group + 1]).shuffle(ids)
            states = torch.from_numpy(self.states.gather(ids))  # as stored: half the memory of fp32
            self._held = ((epoch, group), Batch(states, torch.from_numpy(self.targets[ids].astype(np.int64))))
        return self._held[1]
