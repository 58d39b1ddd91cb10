"""Which entries may reach a bar, by products of int8: the same question as in products.py, rougher
numbers, and a bound for each pair of what they hide.

A state is stretched, w/√s and q·√s with s the spread of each dimension, so that no dimension wastes
the eight bits, and rounded to whole steps; the few numbers beyond 127 steps are cut off. With
^ for the rounded states, and all of them stretched and around the center,

    q·w  ≤  q̂·ŵ + ‖q‖·‖w-ŵ‖ + ‖q-q̂‖·‖ŵ‖

Both added terms are products of a number of the query and a number of the entry, rounded up: they
are further columns of the two matrices, and so are b(w) and the bar, in digits. So the product is
never below score - bar, and an entry whose product is negative cannot reach the bar. What does not
fit its columns has no bound: such an entry is a candidate of every query, and such a query is left
to another way of searching.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search import reached
from knnlm.search.products import (
    Space,
    around_center,
    centered_states,
    factor,
    sum_tolerance,
)
from knnlm.search.reached import (
    PRODUCT,
    Candidates,
    Floats,
    chunks,
    joined,
    pairs_of,
)

_MOST = 127
_FACTOR_COLUMNS = 4
_DIGITS = (4, 40)
"""Columns of b(w), and of the bar: at least, at most."""
_CUT = 0.9999
"""The share of all numbers that is not cut off."""
_ROOM = 4
"""A number of a query or an entry may be so many times as large as is usual."""
_MOST_UNBOUNDED = 0.02
_UP = 1 + 1e-5
"""What fp32 may have rounded away of a number that must not be too small."""


class Grid(NamedTuple):
    """How states become whole numbers.

    Attributes:
        stretch: (D,) √s, what a query is multiplied by and an entry divided by.
        step: The step of an entry.
        usual: The usual ‖w‖ of an entry, in steps.
        size: The usual size of b(w).
    """

    stretch: torch.Tensor
    step: float
    usual: float
    size: float


def grid_of(space: Space, states: Floats) -> Grid:
    """The grid that fits some stored states."""
    centered = torch.from_numpy(states) - space.center
    spread = centered.std(0, correction=0)
    stretch = spread.clamp_min(float(spread.max()) * 1e-3).clamp_min(1e-20).sqrt()
    stretched = centered / stretch
    step = _step(stretched)
    usual = float(torch.linalg.vector_norm(stretched, dim=1).median()) / step
    return Grid(stretch, step, max(usual, 1.0), float(_sizes(space, centered).median()))


def bounds_most(space: Space, grid: Grid, states: Floats) -> bool:
    """Whether nearly all states fit their columns: the others are candidates of every query, which
    costs more than int8 saves where they are many."""
    centered = torch.from_numpy(states) - space.center
    long = torch.linalg.vector_norm(centered / grid.stretch, dim=1) > _ROOM * grid.usual * grid.step
    long |= _sizes(space, centered) > _ROOM * grid.size
    return float(long.float().mean()) <= _MOST_UNBOUNDED


def _sizes(space: Space, centered: torch.Tensor) -> torch.Tensor:
    """How large b(w) is."""
    match space.metric:
        case "l2":
            return centered.square().sum(1)
        case "ip":
            return (centered @ space.center).abs()
        case _:
            assert_never(space.metric)


class WholeQuestions(NamedTuple):
    """Queries as whole numbers, and their bars.

    Attributes:
        space: The center and the metric.
        grid: How entries become whole numbers.
        matrix: (Q, columns) int8: a state, the two numbers of the bound, b(w) and the bar.
        unbounded: (Q,) queries that the bound does not hold for.
        digits: Columns of b(w), and of the bar.
        unit: What a product of two steps is in scores.
        parts: In which parts of a step ‖w-ŵ‖ is counted.
        constant: (Q,) e(q).
        lengths: (Q,) ‖q-c‖.
    """

    space: Space
    grid: Grid
    matrix: torch.Tensor
    unbounded: NDArray[np.bool_]
    digits: int
    unit: float
    parts: float
    constant: Floats
    lengths: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def tile(self) -> int:
        """Entries of a tile."""
        return reached.TILE_ENTRIES

    @property
    def edges(self) -> list[int]:
        """Where each group of columns ends: state, both numbers of the bound, b(w), bar."""
        groups = (len(self.space.center), _FACTOR_COLUMNS, _FACTOR_COLUMNS, self.digits)
        return np.cumsum([*groups, self.digits]).tolist()

    def set_bars(self, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score may be `bars` or more."""
        units = torch.from_numpy((self.constant - bars) / (_MOST * self.unit)).ceil()
        fits = _write_spread(self.matrix[:, self.edges[3] : self.edges[4]], units)
        self.unbounded[:] |= ~fits.numpy()
        self.withdraw(np.flatnonzero(self.unbounded))

    def withdraw(self, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        if len(rows):
            self.matrix[rows] = 0
            self.matrix[rows, self.edges[3] : self.edges[4]] = -_MOST

    def tolerance(self, bars: NDArray[np.floating[Any]], longest: float) -> NDArray[np.float64]:
        """What rounding hides is in the products: only sums in fp32 may be off."""
        return sum_tolerance(self.space, self.lengths.astype(np.float64), bars, longest)

    def candidates(self, keys: Column, starts: Iterable[int]) -> Iterator[Candidates]:
        """Those of the tiles that begin at `starts`."""
        buffers = _buffers(self, min(self.tile, len(keys)))
        for start in starts:
            states = keys.view(start, start + self.tile)
            tile, unbounded, longest = self._tile(states, buffers)
            asked = np.flatnonzero(~self.unbounded) if len(unbounded) else unbounded
            hits = [(np.repeat(asked, len(unbounded)), np.tile(unbounded, len(asked)))]
            for rows, columns in chunks(len(self.matrix), len(tile)):
                some, piece = self.matrix[rows], tile[columns]
                product = buffers.product[: len(some) * len(piece)]
                torch._int_mm(some, piece.T, out=product.view(len(some), len(piece)))
                hits.append(pairs_of(product.numpy() >= 0, rows, columns))
            yield Candidates(start, states, *joined(hits), longest)

    def _tile(
        self, states: NDArray[Any], buffers: "_Buffers"
    ) -> tuple[torch.Tensor, NDArray[np.int64], float]:
        """Entries as whole numbers, those that have no bound, and the greatest ‖w-c‖."""
        grid, edges = self.grid, self.edges
        centered, b, lengths = centered_states(self.space, states, buffers.states)
        centered *= 1 / (grid.stretch * grid.step)
        whole = torch.round(centered, out=buffers.whole[: len(states)]).clamp_(-_MOST, _MOST)
        matrix = buffers.matrix[: len(states)]
        matrix[:, : edges[0]] = whole
        error = torch.linalg.vector_norm(centered.sub_(whole), dim=1) * (_UP * self.parts)
        size = torch.linalg.vector_norm(whole, dim=1) * (_UP * _size_factor(grid))
        units = (b.double() / (_MOST * self.unit)).ceil()
        fits = _write_spread(matrix[:, edges[0] : edges[1]], error.ceil())
        fits &= _write_repeated(matrix[:, edges[1] : edges[2]], size)
        fits &= _write_spread(matrix[:, edges[2] : edges[3]], units)
        unbounded = np.flatnonzero(~fits.numpy())
        if len(unbounded):
            matrix[unbounded, : edges[2]] = 0  # they are pairs of every query already
            matrix[unbounded, edges[2] : edges[3]] = -_MOST
        return matrix, unbounded, float(lengths.max())


def ask_whole(space: Space, grid: Grid, queries: Floats) -> WholeQuestions:
    """Queries as whole numbers; their bars are still to be set."""
    centered, constant, lengths = around_center(space, queries)
    stretched = centered * grid.stretch
    step = _step(stretched)
    stretched /= step
    whole = stretched.round().clamp_(-_MOST, _MOST)
    unit = factor(space.metric) * step * grid.step
    usual = max(float(np.median(np.abs(constant))), grid.size)
    digits = int(np.clip(math.ceil(_ROOM * usual / (_MOST**2 * unit)), *_DIGITS))
    size = torch.linalg.vector_norm(stretched, dim=1) * _UP
    error = torch.linalg.vector_norm(stretched - whole, dim=1) * _UP
    parts = _ROOM * max(float(size.median()), 1.0) / _MOST
    columns = len(space.center) + 2 * _FACTOR_COLUMNS + 2 * digits
    matrix = torch.zeros(len(queries), columns, dtype=torch.int8)
    unbounded = np.zeros(len(queries), bool)
    asked = WholeQuestions(space, grid, matrix, unbounded, digits, unit, parts, constant, lengths)
    edges = asked.edges
    matrix[:, : edges[0]] = whole
    matrix[:, edges[2] : edges[3]] = _MOST
    fits = _write_repeated(matrix[:, edges[0] : edges[1]], size / parts)
    fits &= _write_spread(matrix[:, edges[1] : edges[2]], (error / _size_factor(grid)).ceil())
    unbounded[:] = ~fits.numpy()
    return asked


def _size_factor(grid: Grid) -> float:
    """In which parts of a step ‖ŵ‖ is counted: an entry may be `_ROOM` times as long as usual."""
    return _MOST / (_ROOM * grid.usual)


def _step(states: torch.Tensor) -> float:
    """The step with which nearly all numbers are at most 127 steps."""
    sizes = states.abs().flatten()
    kept = math.ceil(_CUT * len(sizes))
    return max(float(sizes.kthvalue(kept).values) / _MOST, 1e-20)


def _write_repeated(columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A number, rounded up, in each of the columns; whether it fits."""
    whole = values.ceil()
    columns.copy_(whole.clamp_max(_MOST)[:, None])
    return whole <= _MOST


def _write_spread(columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Whole numbers, each as the sum of the columns; whether it fits."""
    count = columns.shape[1]
    fits = values.abs() <= _MOST * count
    whole = values.where(fits, 0).int()
    for number, column in enumerate(columns.unbind(1)):
        column.copy_(torch.div(whole + number, count, rounding_mode="floor"))
    return fits


class _Buffers(NamedTuple):
    """What one thread writes into, again and again."""

    states: torch.Tensor
    whole: torch.Tensor
    matrix: torch.Tensor
    product: torch.Tensor


def _buffers(asked: WholeQuestions, entries: int) -> _Buffers:
    width = len(asked.space.center)
    matrix = torch.empty(entries, asked.matrix.shape[1], dtype=torch.int8)
    matrix[:, asked.edges[3] :] = _MOST
    return _Buffers(
        torch.empty(entries, width),
        torch.empty(entries, width),
        matrix,
        torch.empty(math.prod(PRODUCT), dtype=torch.int32),
    )
