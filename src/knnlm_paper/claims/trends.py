"""A line through a scatter of points, with the interval of its slope."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.evaluation.bootstrap import bootstrap, interval_95


class Trend(NamedTuple):
    """A line through points by least squares: slope, intercept, and the slope's 95% interval by
    bootstrap."""

    slope: float
    intercept: float
    low: float
    high: float


def trend(x: Sequence[float], y: Sequence[float], samples: int = 2000, seed: int = 0) -> Trend:
    """The trend line of a scatter; whole points are resampled."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    slope = float(_slopes(np.ones((1, len(xs))), xs, ys)[0])
    slopes = bootstrap(
        lambda counts: _slopes(counts, xs, ys), len(xs), samples=samples, seed=seed, one_by_one=True
    )
    return Trend(slope, float(ys.mean() - slope * xs.mean()), *interval_95(slopes))


def _slopes(
    counts: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The slope of the line through each draw of points; 0 where x does not vary."""
    means = (counts @ x) / counts.sum(axis=1)
    centered = x - means[:, None]
    spread = (counts * centered**2).sum(axis=1)
    return np.divide((counts * centered) @ y, spread, out=np.zeros_like(spread), where=spread > 0)
