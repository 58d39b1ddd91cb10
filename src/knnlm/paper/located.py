"""Does the place of a token matter (appendix E.3)? The LM's loss and what neighbours gain against the context that the
token has in its window, and against its place in the document: correlations, sums over the first and the last third of
the places for each document (place_findings.py compares them), and means over ranges for a figure.

A document's first window holds its first tokens, so for the window only tokens behind it are looked at: what differs
between those is the context alone. Intervals resample documents. Knows nothing of how the gain came about.
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
    later = np.flatnonzero(places > whole.meta["window"])
    found = {}
    for name, at, rows in (("window", in_window, later), ("document", places, np.arange(len(places)))):
        at, of = at[rows], documents[rows]
        values = {"loss": loss[rows], "gain": gain[rows]}
        found[name] = {
            **{what: correlation(at, y, of)._asdict() for what, y in values.items()}, "tokens": len(rows),
            "thirds": _thirds(at, values, of, len(whole.documents)), "ranges": _ranges(at, values),
        }  # fmt: skip
    return found


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
    if not len(a):
        return Correlation(0.0, 0.0, 0.0)
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


def _thirds(
    at: NDArray[np.integer], values: dict[str, Numbers], documents: NDArray[np.integer], count: int
) -> dict[str, dict[str, list[float]]]:
    """For each document, tokens and sums over the third of the tokens with the lowest and with the highest places."""
    low, high = np.quantile(at, [1 / 3, 2 / 3]) if len(at) else (0.0, 0.0)
    found = {}
    for name, some in (("first", at <= low), ("last", at >= high)):
        found[name] = {
            "tokens": np.bincount(documents[some], minlength=count).astype(float).tolist(),
            **{what: _rounded(np.bincount(documents[some], weights=y[some], minlength=count))
               for what, y in values.items()},
        }  # fmt: skip
    return found


def _rounded(values: NDArray[Any]) -> list[float]:
    return [round(float(value), 6) for value in values]


def _ranges(at: NDArray[np.integer], values: dict[str, Numbers]) -> list[dict[str, float]]:
    """Means over ranges of places with about as many tokens each."""
    order = np.argsort(at, kind="stable")
    return [
        {"place": float(at[some].mean()), "tokens": len(some),
         **{what: float(y[some].mean()) for what, y in values.items()}}
        for some in np.array_split(order, min(_RANGES, len(order)) or 1) if len(some)
    ]  # fmt: skip
