"""The bootstrap: how much a number depends on which documents were measured.

Units (documents, blocks of tokens, words) are drawn with replacement, as many as there are, many
times over. A statistic is computed from how often each unit was drawn, and its 95 % interval spans
the middle of its values. Statistics of the same units and seed see the same draws, so differences
and ratios of them are paired.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLES = 2000
_NUMBERS_AT_ONCE = 1 << 22

Counts = NDArray[np.float64]


class Bounds(NamedTuple):
    """The ends of a 95 % interval."""

    low: float
    high: float


def bootstrap(
    statistic: Callable[[Counts], NDArray[np.float64]],
    units: int,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    one_by_one: bool = False,
) -> NDArray[np.float64]:
    """Compute a statistic for `samples` draws of units with replacement.

    Args:
        statistic: Gives one value for each row of an array (draws, units) that says how often each
            unit was drawn; called several times where the units are many.
        units: How many there are.
        samples: How many draws.
        seed: The same seed gives the same draws.
        one_by_one: Draw the units one after the other instead of their counts. The distribution is
            the same, the random numbers are others; published intervals keep theirs.

    Example:
        >>> heights = np.array([1.62, 1.75, 1.71, 1.80])
        >>> means = bootstrap(lambda counts: counts @ heights / 4, units=4)
        >>> interval_95(means)
        Bounds(low=1.6525, high=1.7775)
    """
    draws = _counts_of_indices if one_by_one else _counts
    return np.concatenate([statistic(counts) for counts in draws(units, samples, seed)])


def bootstrap_means(
    sums: NDArray[np.number],
    totals: NDArray[np.number],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Compute Σ sums / Σ totals over the units of each draw, e.g. nats per token of documents."""
    return bootstrap(
        lambda counts: (counts @ sums) / (counts @ totals), len(sums), samples=samples, seed=seed
    )


def interval_95(values: NDArray[np.float64]) -> Bounds:
    """Return the interval that leaves out 2.5 % of the values at either end."""
    low, high = np.quantile(values, [0.025, 0.975])
    return Bounds(float(low), float(high))


def _counts(units: int, samples: int, seed: int) -> Iterator[Counts]:
    """Yield how often each unit is drawn, in blocks: a text may have a million documents."""
    if samples * units <= _NUMBERS_AT_ONCE:
        yield _all_counts(units, samples, seed)
        return
    rng = np.random.default_rng(seed)
    for size in _blocks(units, samples):
        yield _multinomial(rng, units, size)


@lru_cache(maxsize=2)
def _all_counts(units: int, samples: int, seed: int) -> Counts:
    """Draw all counts at once and keep them: hundreds of comparisons of a text use the same."""
    return _multinomial(np.random.default_rng(seed), units, samples)


def _multinomial(rng: np.random.Generator, units: int, samples: int) -> Counts:
    return rng.multinomial(units, np.full(units, 1 / units), size=samples).astype(np.float64)


def _counts_of_indices(units: int, samples: int, seed: int) -> Iterator[Counts]:
    """Yield how often each unit is drawn when the units are drawn one after the other."""
    rng = np.random.default_rng(seed)
    for size in _blocks(units, samples):
        indices = rng.integers(units, size=(size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(indices.ravel(), minlength=size * units)
        yield counts.reshape(size, units).astype(np.float64)


def _blocks(units: int, samples: int) -> Iterator[int]:
    at_once = max(1, _NUMBERS_AT_ONCE // units)
    for start in range(0, samples, at_once):
        yield min(at_once, samples - start)
