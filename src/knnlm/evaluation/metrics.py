"""Numbers about log-probabilities: perplexity, helping, intervals. Knows nothing of models or
stores."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Logs = NDArray[np.floating]
_LEAST_UNITS = 10
_BLOCK_TOKENS = 200
_LEAST_BLOCK = 20
_DRAWS = 1 << 22


class Interval(NamedTuple):
    """A 95% interval and what was resampled for it."""

    low: float
    high: float
    unit: str


def perplexity(logprobs: Logs, count: int | None = None) -> float:
    """exp(-Σ log p / count); count is the number of tokens, or of words for word-level perplexity.

    ∞ is an answer; the perplexity per word of a text without words is not a number.
    """
    total = float(np.sum(np.asarray(logprobs, np.float64)))
    count = len(logprobs) if count is None else count
    if count == 0:
        return math.nan
    exponent = -total / count
    return math.exp(exponent) if exponent < 700 else math.inf


def helping(lm: Logs, other: Logs) -> float:
    """Share of tokens to which the other predictor gives more probability than the LM (the paper's
    "helping")."""
    return float(np.mean(np.asarray(other) > np.asarray(lm)))


def ratio_interval(
    base: Logs, changed: Logs, documents: NDArray[np.integer], *, samples: int = 2000, seed: int = 0
) -> Interval | None:
    """Paired bootstrap of perplexity(changed)/perplexity(base).

    Tokens of a document are not independent, so documents are resampled; a text with fewer than 10
    is cut into blocks of up to 200 tokens instead. None where there is nothing to resample, or
    where a token is impossible."""
    loss = np.asarray(base, np.float64) - np.asarray(changed, np.float64)
    units, unit = _units(documents)
    sums, counts = np.bincount(units, weights=loss), np.bincount(units).astype(np.float64)
    if len(sums) < _LEAST_UNITS or not np.isfinite(sums).all():
        return None
    ratios = np.exp(bootstrap_means(sums, counts, samples=samples, seed=seed))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Interval(float(low), float(high), unit)


def bootstrap_means(
    sums: NDArray[np.number], counts: NDArray[np.number], *, samples: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    """Σ sums / Σ counts of units (documents) drawn with replacement, `samples` times."""
    return np.concatenate(
        [(picks @ sums) / (picks @ counts) for picks in _draws(len(sums), samples, seed)]
    )


def _draws(units: int, samples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each unit is drawn, `samples` times; some at a time, since a text may have a
    million documents."""
    at_once = max(1, _DRAWS // units)
    if samples <= at_once:
        yield _drawn(units, samples, seed)
        return
    rng = np.random.default_rng(seed)
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        yield rng.multinomial(units, np.full(units, 1 / units), size=size).astype(np.float64)


@lru_cache(maxsize=2)
def _drawn(units: int, samples: int, seed: int) -> NDArray[np.float64]:
    """The same draws serve every comparison of a text, and there are hundreds."""
    return (
        np.random.default_rng(seed)
        .multinomial(units, np.full(units, 1 / units), size=samples)
        .astype(np.float64)
    )


def _units(documents: NDArray[np.integer]) -> tuple[NDArray[np.integer], str]:
    _, numbers = np.unique(documents, return_inverse=True)
    if numbers.max() + 1 >= _LEAST_UNITS:
        return numbers, "document"
    size = max(_LEAST_BLOCK, min(_BLOCK_TOKENS, len(documents) // _LEAST_UNITS))
    return np.arange(len(documents)) // size, f"block of {size} tokens"


def evenly_spaced(rows: int, most: int) -> NDArray[np.int64]:
    """Up to `most` of so many rows, evenly spread, where all would take too long."""
    return np.unique(np.linspace(0, rows - 1, min(most, rows)).astype(np.int64))
