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
from knnlm.search.scores import keep_faiss_to_its_core
from knnlm.similarity import Metric
from knnlm.tensors import read_only_tensor

MOST_QUERIES = 64
"""For more queries a matrix of entries, in the CPU's fastest precision, is worth making."""
_TILES_AT_ONCE = 16
"""Candidates are collected over so many tiles: naming them costs more than finding them."""
_CONVERTED = 1 << 17
"""Numbers that are converted at once: half of a core's cache."""
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
        keep_faiss_to_its_core()
        size, width = min(self.tile, len(keys)), len(self.space.center)
        memory = _memory(len(self.matrix), min(max(1, _CONVERTED // width), size), size, width)
        for start in starts:
            states = keys.view(start, start + self.tile)
            if len(states) < size:  # the last tile
                memory = _memory(len(self.matrix), len(memory.wide), len(states), width)
            self._multiply(read_only_tensor(states), memory)
            torch.ge(memory.product, self.bars, out=memory.reaches)
            rows, columns = np.divmod(np.flatnonzero(memory.reaches.numpy()), len(states))
            longest = float(memory.squares.max()) ** 0.5
            yield Candidates(start, states, rows, columns, longest)

    def _multiply(self, states: torch.Tensor, memory: "_Memory") -> None:
        """Scores of a tile without e(q), and the squared lengths of its entries. After each call of
        PyTorch or FAISS a thread waits for the other threads' Python, so there are few calls."""
        matrix, wide = self.matrix, memory.wide
        center = self.space.center if self.centered else None
        for some, (product, address, rows) in zip(
            states.split(len(wide)), memory.pieces, strict=True
        ):
            if rows < len(wide):
                wide = wide[:rows]
            wide.copy_(some)
            if center is not None:
                wide -= center
            _FAISS.fvec_norms_L2sqr(address, memory.address, wide.shape[1], rows)
            torch.mm(matrix, wide.T, out=product)
            match self.space.metric:
                case "l2":
                    pass  # squared lengths are subtracted below, once a tile
                case "ip":
                    if center is not None:
                        product += wide @ center
                case _:
                    assert_never(self.space.metric)
        match self.space.metric:
            case "l2":
                memory.product.sub_(memory.squares)
            case "ip":
                pass
            case _:
                assert_never(self.space.metric)


class _Memory(NamedTuple):
    """What one thread writes into, again and again.

    Attributes:
        wide: Some states, converted, and `address`, where they lie.
        product: (Q, N) scores of a tile.
        squares: (N,) squared lengths of its entries.
        reaches: (Q, N) which scores reach their bars.
        pieces: For each piece of the tile that is converted at once: its part of the scores, where
            its squared lengths lie, and how many entries it has.
    """

    wide: torch.Tensor
    address: Any
    product: torch.Tensor
    squares: torch.Tensor
    reaches: torch.Tensor
    pieces: list[tuple[torch.Tensor, Any, int]]


def _memory(queries: int, at_once: int, tile: int, width: int) -> _Memory:
    wide, product = torch.empty(at_once, width), torch.empty(queries, tile)
    squares, reaches = torch.empty(tile), torch.empty(queries, tile, dtype=torch.bool)
    pieces = [
        (some, faiss.swig_ptr(lengths.numpy()), len(lengths))
        for some, lengths in zip(product.split(at_once, dim=1), squares.split(at_once), strict=True)
    ]
    return _Memory(wide, faiss.swig_ptr(wide.numpy()), product, squares, reaches, pieces)


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
