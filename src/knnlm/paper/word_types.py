"""Appendix D's analysis of words: how often each token type is helped, how long it is, how varied
its neighbours are.

    H_forward(w) = -Σ p(after|w) log p(after|w)        H_backward(w) = -Σ p(before|w) log p(before|w)

over the bigrams of the stored text, in nats. "Word" is the paper's: a type of the vocabulary. Knows
tokens and which of them were helped; nothing of how."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries


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
    slope, intercept = _line(xs, ys)
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(xs), size=(samples, len(xs)))
    slopes = [_line(xs[p], ys[p])[0] for p in picks]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Trend(slope, intercept, float(low), float(high))


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread if spread > 0 else 0.0
    return slope, float(y.mean() - slope * x.mean())
