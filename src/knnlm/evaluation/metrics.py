"""Numbers about log-probabilities: perplexity, the share of tokens helped, intervals of ratios."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.evaluation.bootstrap import SAMPLES, bootstrap_means, interval_95

Logs = NDArray[np.floating]
_MIN_UNITS = 10
_MAX_BLOCK_TOKENS = 200
_MIN_BLOCK_TOKENS = 20


class Interval(NamedTuple):
    """A 95 % interval and the unit that was resampled for it."""

    low: float
    high: float
    unit: str


def perplexity(logprobs: Logs, count: int | None = None) -> float:
    """Compute exp(-Σ log p / count).

    Args:
        logprobs: log p of each token; -inf makes the perplexity ∞.
        count: The number of words, for perplexity per word; else the number of tokens.

    Returns:
        The perplexity; NaN where the count is zero.

    Example:
        >>> perplexity(np.log([0.25, 0.25]))
        4.0
    """
    total = float(np.sum(np.asarray(logprobs, np.float64)))
    count = len(logprobs) if count is None else count
    if count == 0:
        return math.nan
    exponent = -total / count
    return math.exp(exponent) if exponent < 700 else math.inf


def helping(lm: Logs, other: Logs) -> float:
    """Return the share of tokens to which another predictor gives more probability than the LM.

    The paper calls this "helping".
    """
    return float(np.mean(np.asarray(other) > np.asarray(lm)))


def ratio_interval(
    base: Logs,
    changed: Logs,
    documents: NDArray[np.integer],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Compute the paired bootstrap interval of perplexity(changed) / perplexity(base).

    Tokens of a document are not independent, so documents are resampled; a text with fewer than 10
    documents is cut into blocks of up to 200 tokens instead.

    Args:
        base: log p of each token by one predictor.
        changed: log p of the same tokens by another.
        documents: The document of each token.
        samples: How many times to resample.
        seed: The same seed draws the same documents.

    Returns:
        The interval; None where there are fewer than 10 units or where a token is impossible.
    """
    loss = np.asarray(base, np.float64) - np.asarray(changed, np.float64)
    units, unit = _units(documents)
    sums, counts = np.bincount(units, weights=loss), np.bincount(units).astype(np.float64)
    if len(sums) < _MIN_UNITS or not np.isfinite(sums).all():
        return None
    ratios = np.exp(bootstrap_means(sums, counts, samples=samples, seed=seed))
    return Interval(*interval_95(ratios), unit)


def _units(documents: NDArray[np.integer]) -> tuple[NDArray[np.integer], str]:
    """Return the unit of each token and what a unit is."""
    _, numbers = np.unique(documents, return_inverse=True)
    if numbers.max() + 1 >= _MIN_UNITS:
        return numbers, "document"
    size = max(_MIN_BLOCK_TOKENS, min(_MAX_BLOCK_TOKENS, len(documents) // _MIN_UNITS))
    return np.arange(len(documents)) // size, f"block of {size} tokens"
