"""Loss and gain of tokens against their places: correlations, sums over the first and the last
third of the places for each document (so that claims can compare them), and means over ranges for a
figure. Knows nothing of how the gain came about."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.evaluation.bootstrap import bootstrap, interval_95
from knnlm.text.windows import cut_windows
from knnlm_paper.conditions.place_in_text.condition import (
    Correlation,
    Dependence,
    Quantities,
    Range,
    Third,
    Thirds,
)

Numbers = NDArray[np.float64]
Kind = Literal["window", "document"]
_RANGES = 16


class _Tokens(NamedTuple):
    """Where tokens are, and a value of each."""

    window: NDArray[np.integer]
    document: NDArray[np.integer]
    of: NDArray[np.integer]
    """The document they are in."""
    values: Numbers


def quantities_by_place(queries: Entries, whole: Entries, gain: Numbers) -> dict[Kind, Quantities]:
    """The loss of every token of a text, and a gain that is known for tokens drawn from it, against
    both kinds of places.

    Args:
        queries: The tokens whose gain is known.
        whole: All tokens of the text.
        gain: In nats.
    """
    seen = context_lengths(
        [d.tokens for d in whole.documents], whole.meta["window"], whole.meta["stride"]
    )
    starts = np.cumsum([0] + [d.tokens - 1 for d in whole.documents])

    def located(entries: Entries, values: Numbers) -> _Tokens:
        of, at = (entries.columns[name].all() for name in ("document", "position"))
        return _Tokens(seen[starts[of] + at - 1], at, of, values)

    loss = located(whole, -whole.lm_logprob.astype(np.float64))
    gained = located(queries, gain)
    window, documents = whole.meta["window"], len(whole.documents)
    kinds: tuple[Kind, ...] = ("window", "document")
    return {
        kind: Quantities(
            loss=_dependence(kind, loss, window, documents),
            gain=_dependence(kind, gained, window, documents),
        )
        for kind in kinds
    }


def _dependence(kind: Kind, tokens: _Tokens, window: int, documents: int) -> Dependence:
    """One quantity against one kind of place; places in the window are looked at behind a
    document's first window alone."""
    some = (
        np.flatnonzero(tokens.document > window)
        if kind == "window"
        else np.arange(len(tokens.values))
    )
    at = (tokens.window if kind == "window" else tokens.document)[some]
    of, values = tokens.of[some], tokens.values[some]
    return Dependence(
        tokens=len(some),
        correlation=correlation(at, values, of),
        ranges=_ranges(at, values),
        thirds=_thirds(at, values, of, documents),
    )


def context_lengths(lengths: list[int], window: int, stride: int) -> NDArray[np.int64]:
    """For every predicted token of documents of these lengths, how many tokens before it the model
    saw."""
    seen = [
        np.arange(w.first, w.stop + 1) - w.start
        for length in lengths
        for w in cut_windows(length, window, stride)
    ]
    return np.concatenate(seen)


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
    r: Numbers = np.divide(xy - x * y / n, spread, out=np.zeros_like(spread), where=spread > 0)
    return r


def _thirds(
    at: NDArray[np.integer], values: Numbers, documents: NDArray[np.integer], count: int
) -> Thirds:
    low, high = np.quantile(at, [1 / 3, 2 / 3]) if len(at) else (0.0, 0.0)

    def third(some: NDArray[np.bool_]) -> Third:
        tokens = np.bincount(documents[some], minlength=count)
        totals = np.bincount(documents[some], weights=values[some], minlength=count)
        return Third(
            tokens=tuple(tokens.astype(float).tolist()),
            sum=tuple(round(float(total), 6) for total in totals),
        )

    return Thirds(first=third(at <= low), last=third(at >= high))


def _ranges(at: NDArray[np.integer], values: Numbers) -> tuple[Range, ...]:
    """Means over ranges of places with about as many tokens each."""
    order = np.argsort(at, kind="stable")
    return tuple(
        Range(position=float(at[some].mean()), tokens=len(some), mean=float(values[some].mean()))
        for some in np.array_split(order, min(_RANGES, len(order)) or 1)
        if len(some)
    )
