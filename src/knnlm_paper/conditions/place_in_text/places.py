"""Does the place of a token matter (appendix E.3)? The LM's loss and what neighbours gain against
the context that the token has in its window, and against its place in the document: correlations,
sums over the first and the last third of the places for each document (place_findings.py compares
them), and means over ranges for a figure.

A document's first window holds its first tokens, so for the window only tokens behind it are looked
at: what differs between those is the context alone. Intervals resample documents. Knows nothing of
how the gain came about."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.evaluation.bootstrap import bootstrap, interval_95
from knnlm.text.windows import cut_windows

Numbers = NDArray[np.float64]
_RANGES = 16


class Correlation(NamedTuple):
    """Pearson's r with its 95 % interval."""

    r: float
    low: float
    high: float


class _Tokens(NamedTuple):
    """Where tokens are, and a value of each."""

    window: NDArray[np.integer]
    document: NDArray[np.integer]
    of: NDArray[np.integer]
    """The document they are in."""
    values: Numbers


def located(queries: Entries, whole: Entries, gain: Numbers) -> dict[str, Any]:
    """Of the loss of every token of a text, and of a gain that is known for tokens drawn from
    it."""
    seen = context_lengths(
        [d.tokens for d in whole.documents], whole.meta["window"], whole.meta["stride"]
    )
    starts = np.cumsum([0] + [d.tokens - 1 for d in whole.documents])
    measured = {}
    for what, store, values in (
        ("loss", whole, -whole.lm_logprob.astype(np.float64)),
        ("gain", queries, gain),
    ):
        of, places = (store.table.columns[name].all() for name in ("document", "position"))
        measured[what] = _Tokens(seen[starts[of] + places - 1], places, of, values)
    return {
        place: {
            what: _against(place, tokens, whole.meta["window"], len(whole.documents))
            for what, tokens in measured.items()
        }
        for place in ("window", "document")
    }


def _against(place: str, tokens: _Tokens, window: int, documents: int) -> dict[str, Any]:
    """One quantity against one place; places in the window are looked at behind a document's first
    window alone."""
    rows = (
        np.flatnonzero(tokens.document > window)
        if place == "window"
        else np.arange(len(tokens.values))
    )
    at, of, values = getattr(tokens, place)[rows], tokens.of[rows], tokens.values[rows]
    found = correlation(at, values, of)
    return {
        "tokens": len(rows),
        **({} if found is None else found._asdict()),
        "ranges": _ranges(at, values),
        "thirds": _thirds(at, values, of, documents),
    }


def context_lengths(lengths: list[int], window: int, stride: int) -> NDArray[np.int64]:
    """For every predicted token of documents of these lengths, how many tokens before it the model
    saw."""
    found = [
        np.arange(w.first, w.stop + 1) - w.start
        for length in lengths
        for w in cut_windows(length, window, stride)
    ]
    return np.concatenate(found)


def correlation(
    x: NDArray[Any], y: NDArray[Any], documents: NDArray[np.integer], seed: int = 0
) -> Correlation | None:
    """Pearson's r; the interval is a bootstrap over documents. None where there is nothing to look
    at."""
    a, b = (np.asarray(v, np.float64) for v in (x, y))
    if not len(a):
        return None
    a, b = a - a.mean(), b - b.mean()  # the same r, and no digits lost
    sums = np.stack(
        [
            np.bincount(documents, weights=w, minlength=int(documents.max()) + 1)
            for w in (np.ones_like(a), a, b, a * a, b * b, a * b)
        ]
    )
    sums = sums[:, sums[0] > 0]
    draws = bootstrap(lambda counts: _pearson(counts @ sums.T), sums.shape[1], seed=seed)
    return Correlation(float(_pearson(sums.sum(axis=1)[None])[0]), *interval_95(draws))


def _pearson(sums: Numbers) -> Numbers:
    """From (N, 6) sums of 1, x, y, x², y², xy; 0 where one of them does not vary."""
    n, x, y, xx, yy, xy = sums.T
    spread = np.sqrt(np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0))
    found: Numbers = np.divide(xy - x * y / n, spread, out=np.zeros_like(spread), where=spread > 0)
    return found


def _thirds(
    at: NDArray[np.integer], values: Numbers, documents: NDArray[np.integer], count: int
) -> dict[str, dict[str, list[float]]]:
    """For each document, tokens and sums over the third of the tokens with the lowest and with the
    highest places."""
    low, high = np.quantile(at, [1 / 3, 2 / 3]) if len(at) else (0.0, 0.0)
    return {
        name: {
            "tokens": np.bincount(documents[some], minlength=count).astype(float).tolist(),
            "sum": _rounded(np.bincount(documents[some], weights=values[some], minlength=count)),
        }
        for name, some in (("first", at <= low), ("last", at >= high))
    }


def _rounded(values: NDArray[Any]) -> list[float]:
    return [round(float(value), 6) for value in values]


def _ranges(at: NDArray[np.integer], values: Numbers) -> list[dict[str, float]]:
    """Means over ranges of places with about as many tokens each."""
    order = np.argsort(at, kind="stable")
    return [
        {"place": float(at[some].mean()), "tokens": len(some), "mean": float(values[some].mean())}
        for some in np.array_split(order, min(_RANGES, len(order)) or 1)
        if len(some)
    ]
