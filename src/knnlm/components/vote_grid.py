"""log p_kNN of targets at many k and many τ at once, from one block of neighbors.

    log p_kNN(target; k, τ) = log Σ_{hits i ≤ k} e^(s_i/τ) - log Σ_{i ≤ k} e^(s_i/τ)

Neighbors come nearest first, so sums over the columns between one k and the next, added up, are the
sums of every k. Hits are few and are summed apart, relative to the first of them, which is the best
for every k: no sum of hits can underflow. Weights are fp32, and are summed in pieces that stay in a
core's cache; sums of pieces are float64.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

_COLUMNS_AT_ONCE = 16
"""Weights that are summed in fp32. It does not depend on the grid, so neither do the sums."""
_WEIGHTS_AT_ONCE = 1 << 17
"""Half a megabyte: what is exponentiated and then summed stays in a core's own cache."""
_NEGLIGIBLE = -50.0
"""Weights below e^-50 of the best one change no sum, not even its last bit in float64."""
LEAST_EXPONENT = -80.0
"""PyTorch's exp takes a hundred times as long where the result is subnormal or zero."""


def grid_logprobs(
    scores: NDArray[np.float32], hits: NDArray[np.bool_], ks: Sequence[int], taus: Sequence[float]
) -> NDArray[np.float64]:
    """log p_kNN of the target of every query, for every k and τ.

    Args:
        scores: (Q, K) of neighbors, nearest first if there are several k; -inf where one is
            missing.
        hits: (Q, K), which neighbors hold the query's target.
        ks: How many of the nearest vote: ascending, K at most.
        taus: Retrieval temperatures in any order.

    Returns:
        (k, τ, Q); -inf where no neighbor holds the target.

    Example:
        >>> scores, hits = np.zeros((1, 2), np.float32), np.array([[False, True]])
        >>> np.exp(grid_logprobs(scores, hits, [1, 2], [1.0]))[:, 0, 0]
        array([0. , 0.5])
    """
    logs = np.full((len(ks), len(taus), len(scores)), -np.inf)
    descending = np.argsort(taus)[::-1]
    rates = (1 / np.asarray(taus, np.float64)[descending]).astype(np.float32)
    covered = np.flatnonzero(hits[:, : ks[-1]].any(axis=1))  # the others need no sums
    at_once = max(1, _WEIGHTS_AT_ONCE // (_COLUMNS_AT_ONCE * len(taus)))
    for start in range(0, len(covered), at_once):
        some = covered[start : start + at_once]
        block = _block(scores[some, : ks[-1]], hits[some, : ks[-1]], ks, rates)
        logs[:, descending[:, None], some] = block
    return logs


def _block(
    scores: NDArray[np.float32],
    hits: NDArray[np.bool_],
    ks: Sequence[int],
    rates: NDArray[np.float32],
) -> NDArray[np.float64]:
    """(k, τ, Q) of few queries, each with a hit; `rates` are 1/τ, ascending."""
    gaps = scores - scores.max(axis=1, keepdims=True)
    queries, columns = np.nonzero(hits)
    first_hits = np.searchsorted(queries, np.arange(len(gaps)))
    best_hits = np.maximum.reduceat(gaps[queries, columns], first_hits)
    gaps_of_hits = gaps[queries, columns] - best_hits[queries]
    votes = _votes(gaps_of_hits, queries, columns, len(gaps), ks, rates)
    totals = _totals(np.ascontiguousarray(gaps.T), ks, rates)
    logs = votes.div_(totals).log_().numpy()
    logs += np.outer(rates.astype(np.float64), best_hits)
    return logs


def _totals(
    gaps: NDArray[np.float32], ks: Sequence[int], rates: NDArray[np.float32]
) -> torch.Tensor:
    """Sums of all weights (k, τ, Q) from score - best score (K, Q)."""
    count, rate = gaps.shape[1], torch.from_numpy(rates)[None, :, None]
    memory = torch.empty(_COLUMNS_AT_ONCE * len(rates) * count)
    nearest, farthest = gaps.max(axis=1).tolist(), gaps.min(axis=1).tolist()
    totals = torch.zeros(len(ks), len(rates), count, dtype=torch.float64)
    columns, start = torch.from_numpy(gaps)[:, None], 0
    for number, k in enumerate(ks):
        for left in range(start, k, _COLUMNS_AT_ONCE):
            right = min(left + _COLUMNS_AT_ONCE, k)
            exponents = rates.astype(np.float64) * max(nearest[left:right])
            used = int(np.count_nonzero(exponents >= _NEGLIGIBLE))  # the largest τ come first
            if not used:
                continue
            weights = memory[: (right - left) * used * count].view(right - left, used, count)
            torch.mul(columns[left:right], rate[:, :used], out=weights)
            if float(rates[used - 1]) * min(farthest[left:right]) < LEAST_EXPONENT:
                weights.clamp_(min=LEAST_EXPONENT)
            totals[number, :used] += weights.exp_().sum(0)
        start = k
    return totals.cumsum(0)


def _votes(
    gaps: NDArray[np.float32],
    queries: NDArray[np.int64],
    columns: NDArray[np.int64],
    count: int,
    ks: Sequence[int],
    rates: NDArray[np.float32],
) -> torch.Tensor:
    """Sums of the weights of hits (k, τ, Q) from score - score of the first hit, a row a hit."""
    weights = torch.outer(torch.from_numpy(gaps), torch.from_numpy(rates))
    weights.clamp_(min=LEAST_EXPONENT).exp_()
    sum_of = queries * len(ks) + np.searchsorted(ks, columns, side="right")
    edges = np.searchsorted(sum_of, np.arange(count * len(ks) + 1))
    one_each: Any = np.ones(len(columns)), np.arange(len(columns)), edges
    rows = csr_array(one_each, (count * len(ks), len(columns)))
    sums = torch.from_numpy(rows @ weights.double().numpy()).view(count, len(ks), len(rates))
    return sums.cumsum(1).permute(1, 2, 0).contiguous()
