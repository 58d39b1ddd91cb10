"""Exact search, from disk, in tiles: the truth that every index is measured against.

N×D is never in memory. Three steps, the first fast, the others right:

1. Candidates: the entries that reach a bar, by matrix products in the CPU's fastest precision
   (products.py). The bar of each query is guessed from a sample of the entries, so that some more
   than k reach it. For a few queries the states are scanned instead (scan.py).
2. The best candidates are scored again from differences (scores.py): one definition of an exact
   score everywhere, whatever was searched and however the datastore is cut into parts.
3. Certificate: an entry that was not scored again has a fast score below a known floor. Where the
   k-th exact score is not above that floor by more than the fast score may be off (a bad guess,
   duplicates, ties), the query is searched again with a lower bar.

So the result is the true top k of the exact scores, ties by id.
"""

from typing import Any, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.ranges import check_k
from knnlm.search.neighbors import MISSING, Neighbors, merge, top_k
from knnlm.search.products import (
    TILE_ENTRIES,
    Questions,
    Reached,
    Space,
    ask,
    entries_above,
    guess_bars,
    space_of,
    tiles_above,
)
from knnlm.search.scan import can_scan, scan, scan_above
from knnlm.search.scores import score_entries, score_row
from knnlm.similarity import Metric, longest_state
from knnlm.workers import on_all_cores

_EXTRA_CANDIDATES = 16
_QUERIES_AT_ONCE = 1 << 12
_QUERIES_SEARCHED_AGAIN = 64
_QUERIES_SCORED_AT_ONCE = 16
_LEAST_REACHED = 256
"""At least so many entries should reach a bar: the guess of a small number would be rough."""
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
    bar = edge - np.float32(_unit(keys.type.width)) * size
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
        least: (Q,) a score that every true neighbor has even in the fast scores; -inf where fewer
            than k entries reached the bar.
        longest: The greatest ‖w-c‖ of all entries.
    """

    near: Neighbors
    certain: NDArray[np.bool_]
    crowded: NDArray[np.bool_]
    least: NDArray[np.float64]
    longest: float


def _multiplied(queries: Floats, keys: Column, k: int, metric: Metric) -> Neighbors:
    """The three steps for many queries."""
    space = space_of(keys, metric)
    asked = ask(space, queries)
    guess, lower, longest = guess_bars(space, asked, keys, max(k, _LEAST_REACHED))
    bars = guess - _tolerance(space, asked, guess, longest)
    near, certain, crowded, least, longest = _attempt(space, queries, bars, keys, k)
    again = np.flatnonzero(~certain & ~crowded)
    if can_scan(len(again), keys):
        near.ids[again], near.scores[again] = _scanned(queries[again], keys, k, metric)
        certain[again] = True
    elif len(again):
        second_bars = np.where(np.isfinite(least[again]), least[again], lower[again])
        second = _attempt(space, queries[again], second_bars, keys, k)
        near.ids[again], near.scores[again] = second.near
        certain[again], least[again] = second.certain, second.least
    unsure = np.flatnonzero(~certain)
    for start in range(0, len(unsure), _QUERIES_SEARCHED_AGAIN):
        part = unsure[start : start + _QUERIES_SEARCHED_AGAIN]
        some = _search_above(space, queries[part], least[part], longest, keys, k)
        near.ids[part], near.scores[part] = some
    return near


def _attempt(
    space: Space,
    queries: Floats,
    bars: NDArray[np.floating[Any]],
    keys: Column,
    k: int,
) -> _Attempt:
    asked = ask(space, queries)
    asked.set_bars(space, bars)
    reached = entries_above(space, asked, keys, _MOST_REACHED * max(k, _LEAST_REACHED))
    tolerance = _tolerance(space, asked, bars, reached.longest)
    near, cut = _best(space, queries, reached, tolerance, keys, k)
    edge = near.scores[:, -1].astype(np.float64)
    certain = edge > bars + cut + tolerance
    least = np.where(reached.crowded, bars, edge) - 2 * tolerance
    return _Attempt(near, certain, reached.crowded, least, reached.longest)


def _tolerance(
    space: Space, asked: Questions, bars: NDArray[np.floating[Any]], longest: float
) -> NDArray[np.float64]:
    """How far the fast score of an entry may be off whose exact score reaches the bar.

        |q·w - q̂·ŵ| ≤ ‖q-q̂‖·‖w‖ + ‖q̂‖·‖w-ŵ‖              all around the center; ^: rounded

    and, for the sums, fp32's unit × √D × the size of their terms, four times. Under L2 a state that
    scores `bars` is no longer than ‖q‖ + √-bars, so one far outlier does not matter.
    """
    sums = _unit(len(space.center))
    length, middle = asked.lengths.astype(np.float64), float(space.center.norm())
    rounded = asked.rounded + space.rounding * (length + asked.rounded)
    match space.metric:
        case "l2":
            reach = np.minimum(length + np.sqrt(np.maximum(-bars, 0)), longest)
            return 2 * rounded * reach + sums * (length**2 + reach**2)
        case "ip":
            size = (length + middle) * (longest + middle)
            return rounded * longest + 2 * sums * size
        case _:
            assert_never(space.metric)


def _best(
    space: Space,
    queries: Floats,
    reached: Reached,
    tolerance: NDArray[np.float64],
    keys: Column,
    k: int,
) -> tuple[Neighbors, NDArray[np.float64]]:
    """Step 2: the k best candidates of each query by their exact scores, and by how much those that
    were not scored again were above the bar at most."""
    near, cut = _nothing(len(queries), k), np.zeros(len(queries))
    edges = np.concatenate([[0], reached.ends])

    def work(first: int) -> None:
        block = slice(first, min(first + _QUERIES_SCORED_AT_ONCE, len(queries)))
        counts = np.diff(edges[block.start : block.stop + 1])
        most, pairs = int(counts.max()), slice(edges[block.start], edges[block.stop])
        ids, above = (np.full((len(counts), most), -1, t) for t in (np.int64, np.float32))
        own = np.arange(most) < counts[:, None]
        ids[own], above[own] = reached.ids[pairs], reached.above[pairs]
        if most > k:
            # the product was rounded too, a candidate's and the k-th's
            best = np.partition(above, most - k, axis=1)[:, most - k] * (1 - 4 * space.rounding)
            cut[block] = np.maximum(best - 2 * tolerance[block], 0)
            ids[above < cut[block, None]] = MISSING
        scores = np.full(ids.shape, -np.inf, np.float32)
        for row, query in enumerate(queries[block]):
            kept = ids[row] >= 0
            scores[row, kept] = score_row(space.metric, query, ids[row, kept], keys)
        near.ids[block], near.scores[block] = top_k(ids, scores, k)

    on_all_cores(work, range(0, len(queries), _QUERIES_SCORED_AT_ONCE))
    return near, cut


def _search_above(
    space: Space,
    queries: Floats,
    least: NDArray[np.float64],
    longest: float,
    keys: Column,
    k: int,
) -> Neighbors:
    """Step 3 for queries that are still uncertain: of all entries whose fast score, now in fp32,
    reaches `least`, the k best by their exact scores.

    Any number of entries may reach it; bars rise as better ones come.
    """
    wide = space._replace(dtype=torch.float32)
    asked, bars = ask(wide, queries), least.copy()
    asked.set_bars(wide, bars)
    near = _nothing(len(queries), k)
    for pairs in tiles_above(wide, asked, keys, range(0, len(keys), TILE_ENTRIES)):
        for query in np.unique(pairs.queries).tolist():
            ids = pairs.ids[pairs.queries == query][None]
            scores = score_entries(space.metric, queries[query : query + 1], ids, keys)
            near.ids[query], near.scores[query] = merge(near.of(query), Neighbors(ids, scores), k)
        edge = near.scores[:, -1].astype(np.float64)
        bars = np.maximum(bars, edge - _tolerance(wide, asked, edge, longest))
        asked.set_bars(wide, bars)
    return near


def _nothing(queries: int, k: int) -> Neighbors:
    """Missing neighbors."""
    return top_k(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32), k)


def _unit(width: int) -> float:
    """fp32's unit × √D, four times: how far a sum of D terms may be off, in units of their size."""
    return float(4 * 2.0**-24 * np.sqrt(width))
