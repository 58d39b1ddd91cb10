"""Which entries reach a bar, by matrix products in fp32 or bfloat16.

    score(q, w) = a · (q-c)·(w-c) + b(w) + e(q)

            a     b(w)          e(q)
    l2      2     -‖w-c‖²       -‖q-c‖²
    ip      1     c·(w-c)       q·c

c is the mean of some stored states: what all states share is not multiplied, so that it rounds
nothing away. b(w) and the bar of each query are columns of the two matrices, so their product is
score - bar, and an entry reaches the bar where the sign bit is clear. That needs no precision
beyond the multiplied numbers': the matrices are in bfloat16 where this CPU multiplies it faster.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.search import reached
from knnlm.search.reached import (
    PRODUCT,
    Candidates,
    Floats,
    chunks,
    joined,
    pairs_of,
)
from knnlm.similarity import Metric, as_float32
from knnlm.tensors import read_only_tensor
from knnlm.workers import on_all_cores

_UNREACHABLE = 1e30
"""A bar that no entry reaches."""
CENTER_ENTRIES = 1 << 12
_COLUMNS_MULTIPLE = 8
_SAMPLE_LEAST = 1 << 12
_SAMPLE_HITS = 16
"""Entries of a sample that should reach a bar: fewer, and the guess is rough."""
_SAMPLE_SCORES = 1 << 20
_SAMPLE_BYTES = 1 << 26


class Space(NamedTuple):
    """How states are multiplied: what is subtracted from them, for which metric, in which dtype."""

    metric: Metric
    center: torch.Tensor
    dtype: torch.dtype

    @property
    def rounding(self) -> float:
        """The greatest relative error of a number in this dtype."""
        return torch.finfo(self.dtype).eps / 2

    @property
    def terms(self) -> int:
        """Columns that hold one fp32 number to its last bits."""
        return 1 if self.dtype == torch.float32 else 3

    @property
    def columns(self) -> int:
        """Columns of both matrices: a state, b(w) and the bar."""
        needed = len(self.center) + 2 * self.terms
        return -(-needed // _COLUMNS_MULTIPLE) * _COLUMNS_MULTIPLE


def some_states(keys: Column, least: int = 0) -> Floats:
    """States spread over a datastore, at least so many: their mean is the center."""
    count = min(len(keys), max(least, CENTER_ENTRIES))
    return as_float32(keys.gather(np.linspace(0, len(keys) - 1, count).astype(np.int64)))


def space_of(states: Floats, metric: Metric, dtype: torch.dtype) -> Space:
    """The space around the mean of some states."""
    center = states.mean(axis=0, dtype=np.float64).astype(np.float32)
    return Space(metric, torch.from_numpy(center), dtype)


class Questions(NamedTuple):
    """Queries as a matrix, and their bars.

    Attributes:
        space: How they are multiplied.
        matrix: (Q, columns).
        constant: (Q,) e(q).
        lengths: (Q,) ‖q-c‖.
        rounded: (Q,) ‖(q-c) - its rounding‖.
    """

    space: Space
    matrix: torch.Tensor
    constant: Floats
    lengths: Floats
    rounded: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def tile(self) -> int:
        """Entries of a tile."""
        return reached.TILE_ENTRIES

    @property
    def unbounded(self) -> NDArray[np.bool_]:
        """None: rounding has a bound everywhere."""
        return np.zeros(len(self.matrix), bool)

    def set_bars(self, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score is `bars` or more."""
        width, terms = len(self.space.center), self.space.terms
        values = torch.from_numpy((self.constant - bars).astype(np.float32))
        _write_numbers(self.matrix[:, width + terms : width + 2 * terms], values)

    def withdraw(self, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        if len(rows):
            self.matrix[rows, len(self.space.center) + self.space.terms] = -_UNREACHABLE

    def tolerance(self, bars: NDArray[np.floating[Any]], longest: float) -> NDArray[np.float64]:
        """How far the score of an entry may be off whose exact score reaches the bar."""
        lengths = self.lengths.astype(np.float64)
        return product_tolerance(self.space, lengths, self.rounded, bars, longest)

    def candidates(self, keys: Column, starts: Iterable[int]) -> Iterator[Candidates]:
        """Those of the tiles that begin at `starts`."""
        buffers = _buffers(self.space, min(self.tile, len(keys)))
        for start in starts:
            states = keys.view(start, start + self.tile)
            tile, longest = _tile(self.space, states, buffers)
            hits = []
            for rows, columns in chunks(len(self.matrix), len(tile)):
                some, piece = self.matrix[rows], tile[columns]
                product = buffers.product[: len(some) * len(piece)]
                torch.mm(some, piece.T, out=product.view(len(some), len(piece)))
                hits.append(pairs_of(_signed(product) >= 0, rows, columns))
            yield Candidates(start, states, *joined(hits), longest)


def ask(space: Space, queries: Floats) -> Questions:
    """The matrix of some queries; their bars are still to be set."""
    width, terms = len(space.center), space.terms
    matrix = torch.zeros(len(queries), space.columns, dtype=space.dtype)
    centered, constant, lengths = around_center(space, queries)
    matrix[:, :width] = centered
    rounded = torch.linalg.vector_norm(centered - matrix[:, :width], dim=1)
    matrix[:, :width] *= factor(space.metric)
    matrix[:, width : width + terms] = 1
    return Questions(space, matrix, constant, lengths, rounded.numpy())


def factor(metric: Metric) -> int:
    """a, what products around the center are multiplied by."""
    match metric:
        case "l2":
            return 2
        case "ip":
            return 1
        case _:
            assert_never(metric)


def around_center(space: Space, queries: Floats) -> tuple[torch.Tensor, Floats, Floats]:
    """q-c, e(q) and ‖q-c‖ of some queries."""
    asked = torch.from_numpy(queries)
    centered = asked - space.center
    lengths = torch.linalg.vector_norm(centered, dim=1)
    match space.metric:
        case "l2":
            constant = -lengths.square()
        case "ip":
            constant = asked @ space.center
        case _:
            assert_never(space.metric)
    return centered, constant.numpy(), lengths.numpy()


def reach(
    lengths: NDArray[np.float64], bars: NDArray[np.floating[Any]], longest: float
) -> NDArray[np.float64]:
    """The greatest ‖w-c‖ of a state whose L2 score reaches a query's bar."""
    return np.minimum(lengths + np.sqrt(np.maximum(-bars, 0)), longest)


def product_tolerance(
    space: Space,
    lengths: NDArray[np.float64],
    rounded: NDArray[np.floating[Any]],
    bars: NDArray[np.floating[Any]],
    longest: float,
) -> NDArray[np.float64]:
    """How far the score of an entry may be off whose exact score reaches the bar.

        |q·w - q̂·ŵ| ≤ ‖q-q̂‖·‖w‖ + ‖q̂‖·‖w-ŵ‖              all around the center; ^: rounded

    and what the sums may be off. Under L2 a state that scores `bars` is no longer than
    ‖q‖ + √-bars, so one far outlier does not matter.

    Args:
        space: How they were multiplied.
        lengths: (Q,) ‖q‖.
        rounded: (Q,) ‖q-q̂‖.
        bars: (Q,).
        longest: The greatest ‖w‖.
    """
    hidden = rounded + space.rounding * (lengths + rounded)
    sums = sum_tolerance(space, lengths, bars, longest)
    match space.metric:
        case "l2":
            return 2 * hidden * reach(lengths, bars, longest) + sums
        case "ip":
            return hidden * longest + sums
        case _:
            assert_never(space.metric)


def sum_tolerance(
    space: Space, lengths: NDArray[np.float64], bars: NDArray[np.floating[Any]], longest: float
) -> NDArray[np.float64]:
    """How far sums in fp32 may be off: fp32's unit × √D × the size of their terms, four times."""
    sums = sum_unit(len(space.center))
    match space.metric:
        case "l2":
            return sums * (lengths**2 + reach(lengths, bars, longest) ** 2)
        case "ip":
            middle = float(space.center.norm())
            return 2 * sums * (lengths + middle) * (longest + middle)
        case _:
            assert_never(space.metric)


def sum_unit(width: int) -> float:
    """fp32's unit × √D, four times: how far a sum of D terms may be off, in units of their size."""
    return float(4 * 2.0**-24 * np.sqrt(width))


def bar_sample(keys: Column, count: int) -> Floats:
    """Random states: enough to guess from them which bar `count` of all entries reach. Memory is
    bounded: in a very large datastore the guess is rougher, and more entries are scored."""
    wanted = max(_SAMPLE_LEAST, _SAMPLE_HITS * len(keys) // count)
    sample = min(len(keys), wanted, max(_SAMPLE_LEAST, _SAMPLE_BYTES // (4 * keys.type.width)))
    ids = np.random.default_rng(0).choice(len(keys), sample, replace=False, shuffle=False)
    return as_float32(keys.gather(np.sort(ids)))


def guess_bars(
    space: Space, queries: Floats, states: Floats, share: float
) -> tuple[Floats, Floats, float]:
    """Bars that somewhat more than a share of the entries should reach, lower ones to be safe, and
    the greatest ‖w-c‖ of a sample.

    About that share of the sample reaches them; the rank in the sample is three standard deviations
    beyond it.

    Args:
        space: How states are multiplied.
        queries: (Q, D).
        states: (N, D) a sample of the entries.
        share: Of the entries.
    """
    sample = len(states)
    tile, longest = _tile(space, states, _buffers(space, sample))
    asked = ask(space, queries)
    asked.set_bars(np.zeros(len(queries)))
    hits = share * sample
    ranks = [min(sample, round(times * (hits + 3 * hits**0.5 + 1))) for times in (1, 4)]
    at_once = max(1, _SAMPLE_SCORES // sample)

    def work(start: int) -> Floats:
        scores = torch.mm(asked.matrix[start : start + at_once], tile.T).float().numpy()
        ordered = np.partition(scores, [sample - rank for rank in ranks], axis=1)
        return ordered[:, [sample - rank for rank in ranks]]

    bars = np.concatenate(on_all_cores(work, range(0, len(queries), at_once)))
    return bars[:, 0], bars[:, 1], longest


class _Buffers(NamedTuple):
    """What one thread writes into, again and again."""

    states: torch.Tensor
    matrix: torch.Tensor
    product: torch.Tensor


def _buffers(space: Space, entries: int) -> _Buffers:
    width, terms = len(space.center), space.terms
    matrix = torch.zeros(entries, space.columns, dtype=space.dtype)
    matrix[:, width + terms : width + 2 * terms] = 1
    product = torch.empty(math.prod(PRODUCT), dtype=space.dtype)
    return _Buffers(torch.empty(entries, width), matrix, product)


def _tile(space: Space, states: NDArray[Any], buffers: _Buffers) -> tuple[torch.Tensor, float]:
    """Entries as a matrix, and the greatest ‖w-c‖ among them."""
    width, terms = len(space.center), space.terms
    matrix = buffers.matrix[: len(states)]
    centered, b, lengths = centered_states(space, states, buffers.states)
    matrix[:, :width] = centered
    _write_numbers(matrix[:, width : width + terms], b)
    return matrix, float(lengths.max())


def centered_states(
    space: Space, states: NDArray[Any], memory: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w-c, b(w) and ‖w-c‖ of some stored states; w-c is written into `memory`."""
    centered = memory[: len(states)]
    centered.copy_(read_only_tensor(states))
    centered -= space.center
    lengths = torch.linalg.vector_norm(centered, dim=1)
    match space.metric:
        case "l2":
            b = -lengths.square()
        case "ip":
            b = centered @ space.center
        case _:
            assert_never(space.metric)
    return centered, b, lengths


def _write_numbers(columns: torch.Tensor, values: torch.Tensor) -> None:
    """fp32 numbers as sums of columns: each holds what those before it rounded away."""
    rest = values
    for column in columns.unbind(1):
        column.copy_(rest)
        rest = rest - column


def _signed(product: torch.Tensor) -> NDArray[np.signedinteger[Any]]:
    """The bits of floats as integers of the same sign; in bfloat16 they compare faster."""
    return product.view(torch.int16 if product.element_size() == 2 else torch.int32).numpy()
