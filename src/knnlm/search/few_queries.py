"""Which entries reach a bar, for a few queries: what costs there is reading and converting entries.

The same question as in products.py, but entries are not made into a matrix: some of them at a time
are converted in memory that stays in the cache, multiplied in fp32 and compared there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, assert_never

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search import reached
from knnlm.search.products import (
    Space,
    around_center,
    factor,
    product_tolerance,
    some_states,
    space_of,
)
from knnlm.search.reached import Candidates, Floats
from knnlm.similarity import Metric
from knnlm.tensors import read_only_tensor

MOST_QUERIES = 64
"""For more queries a matrix of entries, in the CPU's fastest precision, is worth making."""
_TILES_AT_ONCE = 16
"""Candidates are collected over so many tiles: naming them costs more than finding them."""
_CONVERTED = 1 << 20
"""Numbers that are converted at once."""
_SAMPLE_HITS = 4
"""Entries of a sample that should reach a bar: reading a larger sample would not pay."""
_FAR = 8
"""A center so many times as far from the origin as states are from it is subtracted from them."""
_FAISS: Any = faiss  # its type hints do not know all that it has


class FewQuestions(NamedTuple):
    """Some queries and their bars.

    Attributes:
        space: The center, zero where subtracting it is not worth its time, and the metric; in fp32.
        matrix: (Q, D) a · (q-c).
        bars: (Q, 1) bars without e(q).
        constant: (Q,) e(q).
        lengths: (Q,) ‖q-c‖.
    """

    space: Space
    matrix: torch.Tensor
    bars: torch.Tensor
    constant: Floats
    lengths: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def centered(self) -> bool:
        """Whether the center is subtracted from entries."""
        return bool(self.space.center.any())

    @property
    def tile(self) -> int:
        """Entries of a tile."""
        return _TILES_AT_ONCE * reached.TILE_ENTRIES

    @property
    def unbounded(self) -> NDArray[np.bool_]:
        """None: sums in fp32 have a bound everywhere."""
        return np.zeros(len(self.matrix), bool)

    def set_bars(self, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score is `bars` or more."""
        self.bars[:, 0] = torch.from_numpy(bars - self.constant)

    def withdraw(self, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        self.bars[rows] = torch.inf

    def tolerance(self, bars: NDArray[np.floating[Any]], longest: float) -> NDArray[np.float64]:
        """How far the score of an entry may be off whose exact score reaches the bar."""
        lengths = self.lengths.astype(np.float64)
        return product_tolerance(self.space, lengths, np.zeros_like(lengths), bars, longest)

    def candidates(self, keys: Column, starts: Iterable[int]) -> Iterator[Candidates]:
        """Those of the tiles that begin at `starts`."""
        size, width = min(self.tile, len(keys)), len(self.space.center)
        at_once = min(max(1, _CONVERTED // width), size)
        memory = _Memory(len(self.matrix), at_once, size, width)
        for start in starts:
            states = keys.view(start, start + self.tile)
            reaches = self._reaches(read_only_tensor(states), memory).numpy()
            rows, columns = np.divmod(np.flatnonzero(reaches), size)
            longest = float(memory.squares[: len(states)].max()) ** 0.5
            yield Candidates(start, states, rows, columns, longest)

    def _reaches(self, states: torch.Tensor, memory: "_Memory") -> torch.Tensor:
        """Whose score reaches which bar. Between two calls of PyTorch the other threads wait, so
        there are few."""
        reaches, at_once = memory.reaches, len(memory.wide)
        if len(states) < reaches.shape[1]:
            reaches.zero_()
        for first in range(0, len(states), at_once):
            some = states[first : first + at_once]
            wide, columns = memory.wide[: len(some)], slice(first, first + len(some))
            wide.copy_(some)
            if self.centered:
                wide -= self.space.center
            squares, product = memory.squares[columns], memory.product[:, : len(some)]
            arrays = (faiss.swig_ptr(values.numpy()) for values in (squares, wide))
            _FAISS.fvec_norms_L2sqr(*arrays, wide.shape[1], len(wide))
            match self.space.metric:
                case "l2":
                    torch.addmm(squares, self.matrix, wide.T, beta=-1, out=product)
                case "ip":
                    torch.mm(self.matrix, wide.T, out=product)
                    if self.centered:
                        product += wide @ self.space.center
                case _:
                    assert_never(self.space.metric)
            torch.ge(product, self.bars, out=reaches[:, columns])
        return reaches


class _Memory:
    """What one thread writes into, again and again."""

    def __init__(self, queries: int, at_once: int, tile: int, width: int) -> None:
        self.wide = torch.empty(at_once, width)
        self.product = torch.empty(queries, at_once)
        self.squares = torch.empty(tile)
        self.reaches = torch.zeros(queries, tile, dtype=torch.bool)


def few_space(keys: Column, metric: Metric, count: int) -> tuple[Space, Floats]:
    """How entries are multiplied with a few queries, and a sample of them to guess bars from that
    `count` of all entries reach."""
    states = some_states(keys, _SAMPLE_HITS * len(keys) // count)
    space = space_of(states, metric, torch.float32)
    spread = np.linalg.norm(states.std(axis=0))
    if float(space.center.norm()) <= _FAR * spread:
        space = space._replace(center=torch.zeros_like(space.center))
    return space, states


def ask_few(space: Space, queries: Floats) -> FewQuestions:
    """A few queries made ready; their bars are still to be set."""
    centered, constant, lengths = around_center(space, queries)
    bars = torch.empty(len(queries), 1)
    return FewQuestions(space, factor(space.metric) * centered, bars, constant, lengths)
