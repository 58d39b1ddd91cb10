"""λ: mixing predictors, fitting the weights exactly, and the oracle that always picks the better
one.

    log P = log( (1-λ) p_LM + λ p_kNN )          of several:  log P = log Σ_i λ_i p_i,  Σ_i λ_i = 1

Works on log-probabilities of the true tokens, wherever they come from.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from knnlm.ranges import check_lambda

Logs = NDArray[np.floating]
_NOTHING_LEFT = 1e-10
"""Nats a token that better weights could still gain."""
_MOST_STEPS = 10_000


def mix(lm: Logs, other: Logs, lam: float) -> NDArray[np.float64]:
    """log((1-λ)·e^lm + λ·e^other), exact at λ = 0 and λ = 1."""
    check_lambda(lam)
    if lam == 0:
        return np.asarray(lm, np.float64)
    if lam == 1:
        return np.asarray(other, np.float64)
    lm_part = np.asarray(lm, np.float64) + math.log1p(-lam)
    return np.logaddexp(lm_part, np.asarray(other, np.float64) + math.log(lam))


def mix_vocabulary(lm: torch.Tensor, other: torch.Tensor, lam: float) -> torch.Tensor:
    """The same over whole vocabularies: log P (…, V) from log-probabilities (…, V), any device."""
    check_lambda(lam)
    if lam == 0:
        return lm
    if lam == 1:
        return other
    return torch.logaddexp(lm + math.log1p(-lam), other + math.log(lam))


def mix_votes(
    lm: torch.Tensor, tokens: torch.Tensor, votes: torch.Tensor, lam: float
) -> torch.Tensor:
    """The same where the other predictor gives all its probability to a few tokens.

    Args:
        lm: log p_LM (B, V); it becomes log P in its memory.
        tokens: (B, K) tokens that the other predictor gives a probability, also repeatedly.
        votes: (B, K) the log p of each, the same wherever a token occurs.
        lam: The interpolation weight λ.

    Returns:
        log P (B, V), which is `lm`.
    """
    check_lambda(lam)
    if lam == 0:
        return lm
    if lam == 1:
        return lm.fill_(-math.inf).scatter_(1, tokens, votes)
    lm += math.log1p(-lam)
    return lm.scatter_(1, tokens, torch.logaddexp(lm.gather(1, tokens), votes + math.log(lam)))


def oracle(lm: Logs, other: Logs) -> NDArray[np.float64]:
    """Log-probabilities of a mixture that knew, token by token, which predictor to trust."""
    return np.maximum(np.asarray(lm, np.float64), np.asarray(other, np.float64))


def fit_lambda(lm: Logs, other: Logs) -> float:
    """The λ of the highest likelihood.

    The log-likelihood is concave in λ, so its slope falls; the optimum is where it crosses zero, or
    an end of [0, 1]. With r = p_other/p_LM the slope of a token is (r-1)/(1+λ(r-1)). Written with
    the posterior w = λr/(1-λ+λr) it is w/λ - (1-w)/(1-λ), which neither overflows nor divides by
    zero inside (0, 1)."""
    # log r; -inf where nothing was retrieved
    gap = np.asarray(other, np.float64) - np.asarray(lm, np.float64)

    def slope(lam: float) -> float:
        w = expit(gap + math.log(lam) - math.log1p(-lam))
        return float(np.mean(w / lam - (1 - w) / (1 - lam)))

    low, high = 1e-12, 1 - 1e-12
    if slope(low) <= 0:
        return 0.0
    if slope(high) >= 0:
        return 1.0
    return float(brentq(slope, low, high, xtol=1e-12))


def mix_several(logs: Sequence[Logs], weights: Sequence[float]) -> NDArray[np.float64]:
    """log Σ_i λ_i·e^logs_i, exact where a λ_i is 0."""
    used = [
        np.asarray(values, np.float64) + math.log(weight)
        for values, weight in zip(logs, weights, strict=True)
        if weight > 0
    ]
    mixed: NDArray[np.float64] = logsumexp(used, axis=0)
    return mixed


def fit_weights(logs: Sequence[Logs]) -> tuple[float, ...]:
    """The λ_i of the highest likelihood: at least zero, one in sum.

    The log-likelihood is concave in them, with slopes g_i = mean p_i/P, of which Σ λ_i g_i = 1. So
    no other weights can gain more than max_i g_i - 1 nats a token, and that ends the search: the
    predictor with the steepest slope takes from the one with the flattest, as much as is best,
    until nothing is left to gain. Probabilities are taken relative to the likeliest of each token,
    so none underflows; a token that every predictor holds impossible says nothing about the weights
    and is left out."""
    rows = np.stack([np.asarray(values, np.float64) for values in logs])
    best = rows.max(axis=0)
    rows, best = rows[:, np.isfinite(best)], best[np.isfinite(best)]
    if len(rows) == 1 or not rows.shape[1]:
        return (1.0, *[0.0] * (len(rows) - 1))
    relative = np.exp(rows - best)
    weights = np.full(len(rows), 1 / len(rows))
    for _ in range(50):  # EM comes near in a few steps from anywhere, and then slows down
        weights = weights * (relative / (weights @ relative)).mean(axis=1)
    weights = weights / weights.sum()
    for _ in range(_MOST_STEPS):
        mixed = weights @ relative
        slopes = (relative / mixed).mean(axis=1)
        taker = int(slopes.argmax())
        if slopes[taker] - 1 < _NOTHING_LEFT:
            break
        giver = int(np.where(weights > 0, slopes, np.inf).argmin())
        step = _best_step(mixed, relative[taker] - relative[giver], float(weights[giver]))
        weights[taker] += step
        weights[giver] -= step
    return tuple(float(w) for w in weights)


def _best_step(mixed: NDArray[np.float64], change: NDArray[np.float64], most: float) -> float:
    """The t of 0 … `most` with the highest mean log(mixed + t·change), which is concave in t."""

    def slope(t: float) -> float:
        # at `most` a token may be left with no probability
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.mean(change / (mixed + t * change)))

    end = slope(most)
    if end >= 0:
        return most
    return float(brentq(slope, 0.0, most if np.isfinite(end) else most * (1 - 1e-12), xtol=1e-15))
