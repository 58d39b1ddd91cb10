"""Appendix D's analysis of words: how often each type is helped, how long it is, how varied the
tokens around it are.

    H_forward(w) = -Σ p(after|w) log p(after|w)
    H_backward(w) = -Σ p(before|w) log p(before|w)

over the bigrams of the stored text, in nats. Knows tokens and which of them were helped; nothing of
how."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm_paper.conditions.word_types.condition import WordType


def word_types(
    test: Entries,
    store: Entries,
    tokenizer: Any,
    exact: NDArray[np.bool_],
    approximate: NDArray[np.bool_],
    least: int,
) -> tuple[WordType, ...]:
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
    types = []
    for token in np.flatnonzero(counts >= least):
        text = tokenizer.decode([int(token)])
        types.append(
            WordType(
                token=text,
                occurrences=int(counts[token]),
                length=len(text.strip()),
                forward=round(float(forward[token]), 4),
                backward=round(float(backward[token]), 4),
                exact=float(helped[0][token] / counts[token]),
                approximate=float(helped[1][token] / counts[token]),
            )
        )
    return tuple(types)


def bigrams(store: Entries) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(token, next token) of every pair inside a document."""
    documents = store.document_numbers
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
    entropy = np.bincount(of, weights=-share * np.log(share), minlength=vocab_size)
    return np.asarray(entropy, np.float64)
