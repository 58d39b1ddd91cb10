"""Does the place of a token matter (appendix E.3)? Correlations of the LM's loss and of what neighbours gain with the
context that the token has in its window, and with its place in the document; and means over ranges, for a figure.

Intervals resample documents. Knows nothing of how the gain came about.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.lm.windows import windows
from knnlm.states.store import Store

Numbers = NDArray[np.float64]
_RANGES = 16
_SAMPLES = 2000


class Correlation(NamedTuple):
    """Pearson's r with its 95 % interval."""

    r: float
    low: float
    high: float


def located(queries: Store, whole: Store, loss: Numbers, gain: Numbers) -> dict[str, Any]:
    """Of tokens drawn from a text; `whole` holds all of it, and so the lengths of its documents."""
    documents = queries.table.columns["document"].all()
    places = queries.table.columns["position"].all()
    seen = context_lengths([d.tokens for d in whole.documents], whole.meta["window"], whole.meta["stride"])
    starts = np.cumsum([0] + [d.tokens - 1 for d in whole.documents])
    in_window = seen[starts[documents] + places - 1]
    return {
        name: {
            "loss": correlation(at, loss, documents)._asdict(), "gain": correlation(at, gain, documents)._asdict(),
            "ranges": _ranges(at, loss, gain),
        }
        for name, at in (("window", in_window), ("document", places))
    }  # fmt: skip


def context_lengths(lengths: list[int], window: int, stride: int) -> NDArray[np.int64]:
    """For every predicted token of documents of these lengths, how many tokens before it the model saw."""
    found = [
        np.arange(w.first, w.stop + 1) - w.start
        for length in lengths for w in windows(length, window, stride)
    ]  # fmt: skip
    return np.concatenate(found)


def correlation(x: NDArray[Any], y: NDArray[Any], documents: NDArray[np.integer], seed: int = 0) -> Correlation:
    """Pearson's r; the interval is a bootstrap over documents."""
    a, b = (np.asarray(v, np.float64) for v in (x, y))
    a, b = a - a.mean(), b - b.mean()  # the same r, and no digits lost
    sums = np.stack([
        np.bincount(documents, weights=w, minlength=int(documents.max()) + 1)
        for w in (np.ones_like(a), a, b, a * a, b * b, a * b)
    ])  # fmt: skip
    sums = sums[:, sums[0] > 0]
    count = sums.shape[1]
    picks = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=_SAMPLES).astype(float)
    low, high = np.quantile(_pearson(picks @ sums.T), [0.025, 0.975])
    return Correlation(float(_pearson(sums.sum(axis=1)[None])[0]), float(low), float(high))


def _pearson(sums: Numbers) -> Numbers:
    """From (N, 6) sums of 1, x, y, x², y², xy; 0 where one of them does not vary."""
    n, x, y, xx, yy, xy = sums.T
    spread = np.sqrt(np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0))
    found: Numbers = np.divide(xy - x * y / n, spread, out=np.zeros_like(spread), where=spread > 0)
    return found


def _ranges(at: NDArray[np.integer], loss: Numbers, gain: Numbers) -> list[dict[str, float]]:
    """Means over ranges of places with about as many tokens each."""
    order = np.argsort(at, kind="stable")
    return [
        {"place": float(at[some].mean()), "tokens": len(some), "loss": float(loss[some].mean()),
         "gain": float(gain[some].mean())}
        for some in np.array_split(order, min(_RANGES, len(order)))
    ]  # fmt: skip
