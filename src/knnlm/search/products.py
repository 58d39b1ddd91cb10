"""The first pass of exact search: which entries reach a bar, by matrix products.

    score(q, w) = a · (q-c)·(w-c) + b(w) + e(q)

            a     b(w)          e(q)
    l2      2     -‖w-c‖²       -‖q-c‖²
    ip      1     c·(w-c)       q·c

c is the mean of some stored states: what all states share is not multiplied, so that it rounds
nothing away. b(w) and the bar of each query are columns of the two matrices, so their product is
score - bar, and an entry reaches the bar where the sign bit is clear. That needs no precision
beyond the multiplied numbers': the matrices are in bfloat16 where this CPU multiplies it faster.
"""

import functools
import math
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.similarity import Metric, as_float32
from knnlm.workers import core_count, on_all_cores

Floats = NDArray[np.float32]

TILE_ENTRIES = 1 << 11
"""Entries that are converted at once …"""
_PRODUCT = (1 << 11, 1 << 9)
"""… and the queries and entries of one product, which stays in the cache until it is read."""
_UNREACHABLE = 1e30
"""A bar that no entry reaches."""
_CENTER_ENTRIES = 1 << 12
_COLUMNS_MULTIPLE = 8
_SAMPLE_LEAST = 1 << 12
_SAMPLE_HITS = 16
"""Entries of a sample that should reach a bar: fewer, and the guess is rough."""
_SAMPLE_SCORES = 1 << 20


@functools.cache
def fastest_dtype() -> torch.dtype:
    """bfloat16 where this CPU multiplies it clearly faster than float32; measured once."""

    def seconds(dtype: torch.dtype) -> float:
        left, right = (torch.ones(256, 512, dtype=dtype) for _ in range(2))
        times = []
        for _ in range(6):
            began = time.perf_counter()
            torch.mm(left, right.T)
            times.append(time.perf_counter() - began)
        return min(times)

    narrow, wide = torch.bfloat16, torch.float32
    return narrow if 1.3 * seconds(narrow) < seconds(wide) else wide


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


def space_of(keys: Column, metric: Metric) -> Space:
    """The space of a datastore's states."""
    rows = np.linspace(0, len(keys) - 1, min(len(keys), _CENTER_ENTRIES)).astype(np.int64)
    center = as_float32(keys.gather(rows)).mean(axis=0, dtype=np.float64).astype(np.float32)
    return Space(metric, torch.from_numpy(center), fastest_dtype())


class Questions(NamedTuple):
    """Queries as a matrix.

    Attributes:
        matrix: (Q, columns).
        constant: (Q,) e(q).
        lengths: (Q,) ‖q-c‖.
        rounded: (Q,) ‖(q-c) - its rounding‖.
    """

    matrix: torch.Tensor
    constant: Floats
    lengths: Floats
    rounded: Floats

    def set_bars(self, space: Space, bars: NDArray[np.floating[Any]]) -> None:
        """Ask for the entries whose score is `bars` or more."""
        width, terms = len(space.center), space.terms
        values = torch.from_numpy((self.constant - bars).astype(np.float32))
        _write_numbers(self.matrix[:, width + terms : width + 2 * terms], values)

    def withdraw(self, space: Space, rows: NDArray[np.int64]) -> None:
        """Ask for nothing in these rows."""
        if len(rows):
            self.matrix[rows, len(space.center) + space.terms] = -_UNREACHABLE


def ask(space: Space, queries: Floats) -> Questions:
    """The matrix of some queries; their bars are still to be set."""
    width, terms = len(space.center), space.terms
    matrix = torch.zeros(len(queries), space.columns, dtype=space.dtype)
    asked = torch.from_numpy(queries)
    centered = asked - space.center
    matrix[:, :width] = centered
    rounded = torch.linalg.vector_norm(centered - matrix[:, :width], dim=1)
    lengths = torch.linalg.vector_norm(centered, dim=1)
    match space.metric:
        case "l2":
            matrix[:, :width] *= 2
            constant = -lengths.square()
        case "ip":
            constant = asked @ space.center
        case _:
            assert_never(space.metric)
    matrix[:, width : width + terms] = 1
    return Questions(matrix, constant.numpy(), lengths.numpy(), rounded.numpy())


class Reached(NamedTuple):
    """Pairs of a query and an entry that reaches its bar, sorted by query.

    Attributes:
        ends: (Q,) where the pairs of each query end.
        ids: (P,) the entries.
        above: (P,) score - bar, rounded as the product is.
        crowded: (Q,) queries that too many entries reached; they have no pairs.
        longest: The greatest ‖w-c‖ of all entries.
    """

    ends: NDArray[np.int64]
    ids: NDArray[np.int64]
    above: Floats
    crowded: NDArray[np.bool_]
    longest: float


class _Pairs(NamedTuple):
    """Pairs of one tile."""

    queries: NDArray[np.integer[Any]]
    ids: NDArray[np.int64]
    above: Floats
    longest: float


def guess_bars(
    space: Space, asked: Questions, keys: Column, count: int
) -> tuple[Floats, Floats, float]:
    """Bars that somewhat more than `count` entries should reach, lower ones to be safe, and the
    greatest ‖w-c‖ of a sample.

    Where a share of the entries reaches the bar, about that share of a random sample does; the rank
    in the sample is three standard deviations beyond it. The bars of `asked` change.
    """
    sample = min(len(keys), max(_SAMPLE_LEAST, _SAMPLE_HITS * len(keys) // count))
    ids = np.random.default_rng(0).choice(len(keys), sample, replace=False, shuffle=False)
    buffers = _buffers(space, sample)
    tile, longest = _tile(space, keys.gather(np.sort(ids)), buffers)
    asked.set_bars(space, np.zeros(len(asked.constant)))
    hits = count * sample / len(keys)
    ranks = [min(sample, round(times * (hits + 3 * hits**0.5 + 1))) for times in (1, 4)]
    at_once = max(1, _SAMPLE_SCORES // sample)

    def work(start: int) -> Floats:
        scores = torch.mm(asked.matrix[start : start + at_once], tile.T).float().numpy()
        ordered = np.partition(scores, [sample - rank for rank in ranks], axis=1)
        return ordered[:, [sample - rank for rank in ranks]]

    bars = np.concatenate(on_all_cores(work, range(0, len(asked.matrix), at_once)))
    return bars[:, 0], bars[:, 1], longest


def entries_above(space: Space, asked: Questions, keys: Column, most: int) -> Reached:
    """All entries that reach the bars of the queries.

    Args:
        space: How states are multiplied.
        asked: At most 65,536 queries with their bars; bars of crowded queries change.
        keys: The stored states.
        most: A query that more entries reach is crowded: its pairs are dropped, so that a million
            equal states take no memory.
    """
    count = np.zeros(len(asked.matrix), np.int64)
    starts = iter(range(0, len(keys), TILE_ENTRIES))  # each thread takes the next one

    def work(_: int) -> list[_Pairs]:
        pairs = []
        for each in tiles_above(space, asked, keys, starts):
            count[:] += np.bincount(each.queries, minlength=len(count))
            if len(each.queries) and count.max() > most:
                asked.withdraw(space, np.flatnonzero(count > most))
            pairs.append(each._replace(queries=each.queries.astype(np.uint16)))
        return pairs

    pairs = [each for some in on_all_cores(work, range(core_count())) for each in some]
    crowded = count > most
    queries = np.concatenate([each.queries for each in pairs])
    order = np.argsort(queries, kind="stable")  # a radix sort: numbers of queries have 16 bits
    if crowded.any():
        order = order[~crowded[queries[order]]]
    ids = np.concatenate([each.ids for each in pairs])[order]
    above = np.concatenate([each.above for each in pairs])[order]
    ends = np.cumsum(np.where(crowded, 0, count))
    return Reached(ends, ids, above, crowded, max(each.longest for each in pairs))


def tiles_above(
    space: Space, asked: Questions, keys: Column, starts: Iterable[int]
) -> Iterator[_Pairs]:
    """The same for tiles that begin at `starts`, one after the other."""
    queries, entries = _PRODUCT
    buffers = _buffers(space, min(TILE_ENTRIES, len(keys)))
    for start in starts:
        tile, longest = _tile(space, keys.read(start, start + TILE_ENTRIES), buffers)
        for row in range(0, len(asked.matrix), queries):
            some = asked.matrix[row : row + queries]
            for column in range(0, len(tile), entries):
                piece = tile[column : column + entries]
                product = buffers.product[: len(some) * len(piece)]
                torch.mm(some, piece.T, out=product.view(len(some), len(piece)))
                hits = np.flatnonzero(_signed(product) >= 0)
                rows, columns = np.divmod(hits, len(piece))
                above = product[torch.from_numpy(hits)].float().numpy()
                yield _Pairs(rows + row, columns + (start + column), above, longest)


class _Buffers(NamedTuple):
    """What one thread writes into, again and again."""

    states: torch.Tensor
    matrix: torch.Tensor
    product: torch.Tensor


def _buffers(space: Space, entries: int) -> _Buffers:
    width, terms = len(space.center), space.terms
    matrix = torch.zeros(entries, space.columns, dtype=space.dtype)
    matrix[:, width + terms : width + 2 * terms] = 1
    product = torch.empty(math.prod(_PRODUCT), dtype=space.dtype)
    return _Buffers(torch.empty(entries, width), matrix, product)


def _tile(space: Space, states: NDArray[Any], buffers: _Buffers) -> tuple[torch.Tensor, float]:
    """Entries as a matrix, and the greatest ‖w-c‖ among them."""
    width, terms = len(space.center), space.terms
    centered, matrix = buffers.states[: len(states)], buffers.matrix[: len(states)]
    centered.copy_(torch.from_numpy(states))
    centered -= space.center
    lengths = torch.linalg.vector_norm(centered, dim=1)
    match space.metric:
        case "l2":
            b = -lengths.square()
        case "ip":
            b = centered @ space.center
        case _:
            assert_never(space.metric)
    matrix[:, :width] = centered
    _write_numbers(matrix[:, width : width + terms], b)
    return matrix, float(lengths.max())


def _write_numbers(columns: torch.Tensor, values: torch.Tensor) -> None:
    """fp32 numbers as sums of columns: each holds what those before it rounded away."""
    rest = values
    for column in columns.unbind(1):
        column.copy_(rest)
        rest = rest - column


def _signed(product: torch.Tensor) -> NDArray[np.signedinteger[Any]]:
    """The bits of floats as integers of the same sign; in bfloat16 they compare faster."""
    return product.view(torch.int16 if product.element_size() == 2 else torch.int32).numpy()
