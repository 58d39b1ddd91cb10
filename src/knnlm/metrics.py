"""Numbers about log-probabilities: perplexity, helping, intervals. Knows nothing of models or stores."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Logs = NDArray[np.floating]
_LEAST_DOCUMENTS = 20
_BLOCK_TOKENS = 200


class Interval(NamedTuple):
    """A 95% interval and what was resampled for it."""

    low: float
    high: float
    unit: str


def perplexity(logprobs: Logs, count: int | None = None) -> float:
    """exp(-Σ log p / count); count is the number of tokens, or of words for word-level perplexity. ∞ is an answer."""
    total = float(np.sum(np.asarray(logprobs, np.float64)))
    exponent = -total / (len(logprobs) if count is None else count)
    return math.exp(exponent) if exponent < 700 else math.inf


def helping(lm: Logs, other: Logs) -> float:
    """Share of tokens to which the other predictor gives more probability than the LM (the paper's "helping")."""
    return float(np.mean(np.asarray(other) > np.asarray(lm)))


def ratio_interval(
    base: Logs, changed: Logs, documents: NDArray[np.integer], *, samples: int = 2000, seed: int = 0
) -> Interval:
    """Paired bootstrap of perplexity(changed)/perplexity(base).

    Tokens of a document are not independent, so documents are resampled; a text with few of them is cut into blocks of
    200 tokens instead.
    """
    gain = np.asarray(base, np.float64) - np.asarray(changed, np.float64)
    units, unit = _units(documents)
    sums = np.bincount(units, weights=gain)
    counts = np.bincount(units).astype(np.float64)
    rng = np.random.default_rng(seed)
    picks = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=samples)
    ratios = np.exp((picks @ sums) / (picks @ counts))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Interval(float(low), float(high), unit)


def _units(documents: NDArray[np.integer]) -> tuple[NDArray[np.integer], str]:
    _, numbers = np.unique(documents, return_inverse=True)
    if numbers.max() + 1 >= _LEAST_DOCUMENTS:
        return numbers, "document"
    return np.arange(len(documents)) // _BLOCK_TOKENS, f"block of {_BLOCK_TOKENS} tokens"
