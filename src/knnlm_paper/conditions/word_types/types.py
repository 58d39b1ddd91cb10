"""Appendix D's analysis of words: how often each token type is helped, how long it is, how varied
its neighbours are.

    H_forward(w) = -Σ p(after|w) log p(after|w)
    H_backward(w) = -Σ p(before|w) log p(before|w)

over the bigrams of the stored text, in nats. "Word" is the paper's: a type of the vocabulary. Knows
tokens and which of them were helped; nothing of how."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.evaluation.bootstrap import bootstrap, interval_95


class WordType(NamedTuple):
    """One token type of the test text. `exact` and `approximate` are the shares of its occurrences
    that were helped."""

    token: str
    occurrences: int
    length: int
    forward: float
    backward: float
    exact: float
    approximate: float


def word_types(
    test: Entries,
    store: Entries,
    tokenizer: Any,
    exact: NDArray[np.bool_],
    approximate: NDArray[np.bool_],
    least: int,
) -> list[WordType]:
    """Every type that occurs at least `least` times, in the order of their ids."""
    counts = np.bincount(test.targets, minlength=test.vocab_size)
    helped = [
        np.bincount(test.targets, weights=h, minlength=test.vocab_size)
        for h in (exact, approximate)
    ]
    before, after = bigrams(store)
    forward, backward = (
        entropies(before, after, test.vocab_size),
        entropies(after, before, test.vocab_size),
    )
    found = []
    for token in np.flatnonzero(counts >= least):
        text = tokenizer.decode([int(token)])
        found.append(
            WordType(
                text,
                int(counts[token]),
                len(text.strip()),
                round(float(forward[token]), 4),
                round(float(backward[token]), 4),
                float(helped[0][token] / counts[token]),
                float(helped[1][token] / counts[token]),
            )
        )
    return found


def bigrams(store: Entries) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(token, next token) of every pair inside a document."""
    documents = store.table.columns["document"].all()
    same = documents[1:] == documents[:-1]
    return store.targets[:-1][same], store.targets[1:][same]


def entropies(
    given: NDArray[np.integer], other: NDArray[np.integer], vocab_size: int
) -> NDArray[np.float64]:
    """Entropy of `other` for each value of `given`, in nats; 0 where it does not occur."""
    pairs, counts = np.unique(given.astype(np.int64) * vocab_size + other, return_counts=True)
    of = pairs // vocab_size
    totals = np.bincount(of, weights=counts, minlength=vocab_size)
    share = counts / totals[of]
    found = np.bincount(of, weights=-share * np.log(share), minlength=vocab_size)
    return np.asarray(found, np.float64)


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
