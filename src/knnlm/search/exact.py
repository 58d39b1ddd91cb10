"""Exact search, from disk, in tiles: the truth that every index is measured against.

N×D is never in memory. Three steps, the first fast, the others right:

1. Candidates: the entries that may reach a bar, by matrix products in the CPU's fastest precision
   (products.py, whole_numbers.py). The bar of each query is guessed from a sample of the entries,
   so that some more than k reach it. For a few queries the states are scanned (scan.py).
2. Candidates are scored from differences (scores.py): one definition of an exact score everywhere,
   whatever was searched and however the datastore is cut into parts.
3. Certificate: the exact score of an entry that was no candidate is below a known floor. Where the
   k-th exact score is not above that floor (a bad guess, duplicates, ties), the query is searched
   again with a lower bar.

So the result is the true top k of the exact scores, ties by id.
"""

from typing import Any, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.ranges import check_k
from knnlm.search.few_queries import MOST_QUERIES, ask_few, few_space
from knnlm.search.neighbors import Neighbors, merge, top_k
from knnlm.search.precision import fastest_dtype
from knnlm.search.products import (
    Space,
    ask,
    bar_sample,
    guess_bars,
    some_states,
    space_of,
    sum_unit,
)
from knnlm.search.reached import Asked, Reached, entries_above, tile_starts
from knnlm.search.scan import can_scan, scan, scan_above
from knnlm.search.scores import score_entries
from knnlm.search.whole_numbers import Grid, ask_whole, bounds_most, grid_of
from knnlm.similarity import Metric, longest_state
from knnlm.workers import on_all_cores

_EXTRA_CANDIDATES = 16
_QUERIES_AT_ONCE = 1 << 12
_QUERIES_SEARCHED_AGAIN = 64
_LEAST_REACHED = 256
"""At least so many entries should reach a bar: the guess of a small number would be rough."""
_MORE = 1.001
"""Bars are lowered by a little more than scores may be off, so that ties with a bar are certain."""
_MOST_REACHED = 16
"""A query whose bar is reached by so many times as many is searched another way, to save memory."""

Floats = NDArray[np.float32]


def exact_search(queries: NDArray[Any], keys: Column, k: int, metric: Metric) -> Neighbors:
    """The k entries whose states are nearest to each query.

    Args:
        queries: (Q, D) hidden states.
        keys: The column of stored states, memory-mapped.
        k: Neighbors of each query, 1 to 4096; a smaller datastore leaves missing neighbors.
        metric: "l2" or "ip".

    Returns:
        Neighbors of shape (Q, k) with exact scores.

    Raises:
        UsageError: k is out of range.

    Example:
        >>> store = open_entries("store")
        >>> near = exact_search(store.key("att").read(0, 5), store.key("att"), 8, "l2")
        >>> near.ids[:, 0]  # every entry is its own nearest neighbor
        array([0, 1, 2, 3, 4])
    """
    check_k(k)
    asked = np.ascontiguousarray(queries, np.float32)
    if can_scan(len(asked), keys):
        return _scanned(asked, keys, k, metric)
    nearest = _nothing(len(asked), k)
    for start in range(0, len(asked), _QUERIES_AT_ONCE):
        block = slice(start, start + _QUERIES_AT_ONCE)
        if len(keys) <= k + _EXTRA_CANDIDATES:
            every = np.broadcast_to(np.arange(len(keys)), (len(asked[block]), len(keys)))
            near = with_exact_scores(
                Neighbors(every, nearest.scores), asked[block], keys, metric, k
            )
        else:
            near = _multiplied(asked[block], keys, k, metric)
        nearest.ids[block], nearest.scores[block] = near
    return nearest


def with_exact_scores(
    neighbors: Neighbors, queries: NDArray[Any], keys: Column, metric: Metric, k: int | None = None
) -> Neighbors:
    """The same neighbors, scored by the similarity of their stored states, in the order of that.

    Args:
        neighbors: (Q, C) candidates of the queries, for instance those that an index found; their
            scores are not looked at.
        queries: (Q, D) hidden states.
        keys: The column of stored states.
        metric: "l2" or "ip".
        k: Keep the k nearest of them; by default all.
    """
    scores = score_entries(metric, queries, neighbors.ids, keys)
    return top_k(neighbors.ids, scores, neighbors.ids.shape[1] if k is None else k)


def _scanned(queries: Floats, keys: Column, k: int, metric: Metric) -> Neighbors:
    """The three steps for a few queries. The scanner's sums have no terms that cancel, and
    differ from exact scores by the rounding of fp32 alone."""
    count = k + _EXTRA_CANDIDATES
    candidates = scan(queries, keys, count, metric)
    nearest = with_exact_scores(candidates, queries, keys, metric, k)
    if len(keys) <= count:
        return nearest
    edge = nearest.scores[:, -1]
    match metric:
        case "l2":
            size = -edge
        case "ip":
            lengths = np.einsum("qd,qd->q", queries, queries)
            size = np.sqrt(lengths * np.float32(longest_state(keys)))
        case _:
            assert_never(metric)
    bar = edge - np.float32(sum_unit(keys.type.width)) * size
    for query in np.flatnonzero(candidates.scores[:, -1] >= bar):
        near = _nothing(1, k)
        for ids in scan_above(queries[query], keys, float(bar[query]), metric):
            scores = score_entries(metric, queries[query : query + 1], ids[None], keys)
            near = merge(near, Neighbors(ids[None], scores), k)
        nearest.ids[query], nearest.scores[query] = near
    return nearest


class _Attempt(NamedTuple):
    """What one pass over the entries gave to each query.

    Attributes:
        near: (Q, k) the nearest of the entries that reached the bar.
        certain: (Q,) whether these are the true ones.
        crowded: (Q,) whether too many entries reached the bar.
        least: (Q,) a score that every true neighbor has; -inf where fewer than k entries reached
            the bar.
        longest: The greatest ‖w-c‖ of all entries.
    """

    near: Neighbors
    certain: NDArray[np.bool_]
    crowded: NDArray[np.bool_]
    least: NDArray[np.float64]
    longest: float


class _Ways(NamedTuple):
    """How the entries of a datastore are multiplied: with a few queries in fp32, with many in
    floating point, or in int8 where that is fastest."""

    space: Space
    grid: Grid | None

    def ask(self, queries: Floats) -> Asked:
        """Queries made ready; their bars are still to be set."""
        if len(queries) <= MOST_QUERIES:
            return ask_few(self.space._replace(dtype=torch.float32), queries)
        if self.grid is not None:
            return ask_whole(self.space, self.grid, queries)
        return ask(self.space, queries)


def _ways(keys: Column, metric: Metric) -> _Ways:
    """For many queries."""
    states, fastest = some_states(keys), fastest_dtype()
    if fastest != torch.int8:
        return _Ways(space_of(states, metric, fastest), None)
    space = space_of(states, metric, torch.float32)
    grid = grid_of(space, states)
    return _Ways(space, grid if bounds_most(space, grid, states) else None)


def _multiplied(queries: Floats, keys: Column, k: int, metric: Metric) -> Neighbors:
    """The three steps for many queries."""
    count = max(k, _LEAST_REACHED)
    if len(queries) <= MOST_QUERIES:
        space, sample = few_space(keys, metric, count)
        ways = _Ways(space, None)
    else:
        ways, sample = _ways(keys, metric), bar_sample(keys, count)
    guess, lower, longest = guess_bars(ways.space, queries, sample, count / len(keys))
    near, certain, crowded, least, longest = _attempt(ways, queries, guess, longest, keys, k)
    again = np.flatnonzero(~certain & ~crowded)
    if len(again) and not can_scan(int((~certain).sum()), keys):
        bars = np.where(np.isfinite(least), least, lower)[again]
        floating = ways._replace(grid=None)
        second = _attempt(floating, queries[again], bars, longest, keys, k)
        near.ids[again], near.scores[again] = second.near
        certain[again], least[again] = second.certain, second.least
    unsure = np.flatnonzero(~certain)
    if can_scan(len(unsure), keys):
        near.ids[unsure], near.scores[unsure] = _scanned(queries[unsure], keys, k, metric)
        return near
    for start in range(0, len(unsure), _QUERIES_SEARCHED_AGAIN):
        part = unsure[start : start + _QUERIES_SEARCHED_AGAIN]
        some = _search_above(ways.space, queries[part], least[part], longest, keys, k)
        near.ids[part], near.scores[part] = some
    return near


def _attempt(
    ways: _Ways,
    queries: Floats,
    bars: NDArray[np.floating[Any]],
    longest: float,
    keys: Column,
    k: int,
) -> _Attempt:
    """One pass. The bars are lowered by what a score may be off if no entry is longer than
    `longest`; how long they are is known afterwards."""
    metric, asked = ways.space.metric, ways.ask(queries)
    lowered = bars - _MORE * asked.tolerance(bars, longest)
    asked.set_bars(lowered)
    most = _MOST_REACHED * max(k, _LEAST_REACHED)
    reached = entries_above(asked, metric, queries, bars, keys, most)
    near = _best(reached, k)
    edge = near.scores[:, -1].astype(np.float64)
    tolerance = asked.tolerance(lowered, reached.longest)
    certain = ~reached.unbounded & (edge >= np.maximum(bars, lowered + tolerance))
    least = np.where(reached.crowded, bars, np.where(reached.unbounded, -np.inf, edge))
    return _Attempt(near, certain, reached.crowded, least, reached.longest)


def _best(reached: Reached, k: int) -> Neighbors:
    """The k best of the entries that each query's bar was reached by."""
    near = _nothing(len(reached.ends), k)
    edges = np.concatenate([[0], reached.ends])

    def work(query: int) -> None:
        own = slice(edges[query], edges[query + 1])
        best = top_k(reached.ids[None, own], reached.scores[None, own], k)
        near.ids[query], near.scores[query] = best

    on_all_cores(work, range(len(reached.ends)))
    return near


def _search_above(
    space: Space,
    queries: Floats,
    least: NDArray[np.float64],
    longest: float,
    keys: Column,
    k: int,
) -> Neighbors:
    """Step 3 for queries that are still uncertain: of all entries whose score reaches `least`, the
    k best.

    Any number of entries may reach it; bars rise as better ones come.
    """
    wide = space._replace(dtype=torch.float32)
    asked, near = ask(wide, queries), _nothing(len(queries), k)
    bars = least - asked.tolerance(least, longest)
    asked.set_bars(bars)
    for tile in asked.candidates(keys, tile_starts(keys, asked.tile)):
        scores = tile.scores(space.metric, queries)
        for query in np.unique(tile.queries).tolist():
            own = tile.queries == query
            some = Neighbors(tile.columns[None, own] + tile.start, scores[None, own])
            near.ids[query], near.scores[query] = merge(near.of(query), some, k)
        edge = near.scores[:, -1].astype(np.float64)
        bars = np.maximum(bars, edge - asked.tolerance(edge, longest))
        asked.set_bars(bars)
    return near


def _nothing(queries: int, k: int) -> Neighbors:
    """Missing neighbors."""
    return top_k(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32), k)
