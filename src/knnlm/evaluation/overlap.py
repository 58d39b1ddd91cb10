"""Whether a text is in a datastore: then its tokens would retrieve themselves, and every number
would flatter.

    share = tokens inside runs of RUN tokens that the datastore holds too / all tokens

Runs are compared by rolling hashes of normalized tokens: case, white space and punctuation do not
count. Documents shorter than a run are compared as a whole. So a copy is recognized whatever its
line ends, its container, its indentation or how it is wrapped, and so is a part of one. Other text
of the same kind shares a few such runs (license notes, tables), which is why a share is allowed;
docs/LOG.md has the measurements behind the limits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RUN = 32
"""Tokens in a row that count as shared."""
WHOLE = 0.9
"""A document of which this share is in the datastore is in it."""
LEAST_TOKENS = 64
"""Shorter documents are not judged one by one."""
SMALL_SHARE, LARGE_SHARE = 0.01, 0.2
"""A text is refused if documents that are in the datastore make up the first share of it, or shared
runs the second."""
_BLOCK = 1 << 20
_LONGEST_SHORT = 4 * RUN  # with white space and punctuation
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)

Ids = NDArray[np.int64]


class Overlap(NamedTuple):
    """How much of a text a datastore holds.

    Attributes:
        share: Share of the text's tokens inside shared runs.
        documents: Numbers of the documents that are in the datastore as a whole.
        documents_share: Share of the text's tokens that those documents have.
        total: How many documents the text has.
    """

    share: float
    documents: tuple[int, ...]
    documents_share: float
    total: int

    @property
    def large(self) -> bool:
        """Whether the text would say little about unseen text."""
        return self.documents_share >= SMALL_SHARE or self.share >= LARGE_SHARE


def normalized_tokens(tokenizer: Any, vocab_size: int) -> Ids:
    """For each vocabulary entry a number for what is left of it in lower case, without white space
    and punctuation; -1 where nothing is."""
    numbers: dict[str, int] = {}
    normalized = np.empty(vocab_size, np.int64)
    for token, text in enumerate(tokenizer.batch_decode([[token] for token in range(vocab_size)])):
        word = "".join(letter for letter in text.lower() if letter.isalnum())
        normalized[token] = numbers.setdefault(word, len(numbers)) if word else -1
    return normalized


def find_overlap(
    documents: Sequence[NDArray[np.int32]],
    stored: NDArray[np.int32],
    stored_lengths: Sequence[int],
    normalized: Ids,
) -> Overlap:
    """How much of a text is in a datastore.

    Args:
        documents: The predicted tokens of each document of the text.
        stored: The tokens of the datastore's entries.
        stored_lengths: How many of them each of its documents has, in order.
        normalized: What `normalized_tokens` gave for their tokenizer.
    """
    lengths = np.array([len(tokens) for tokens in documents], np.int64)
    numbers = np.repeat(np.arange(len(documents)), lengths)
    tokens = normalized[np.concatenate(documents)] if len(documents) else np.empty(0, np.int64)
    kept = tokens >= 0
    tokens, numbers = tokens[kept], numbers[kept]
    counts = np.bincount(numbers, minlength=len(documents))
    shared = _in_shared_runs(tokens, numbers, stored, normalized)
    copies = _short_copies(tokens, counts, stored, stored_lengths, normalized)
    shared |= np.isin(numbers, copies)
    shares = np.bincount(numbers, weights=shared, minlength=len(documents)) / np.maximum(counts, 1)
    whole = np.flatnonzero((shares >= WHOLE) & (counts >= LEAST_TOKENS))
    total = max(1, len(tokens))
    return Overlap(
        share=float(shared.sum() / total),
        documents=tuple(whole.tolist()),
        documents_share=float(counts[whole].sum() / total),
        total=len(documents),
    )


def _short_copies(
    tokens: Ids,
    counts: Ids,
    stored: NDArray[np.int32],
    stored_lengths: Sequence[int],
    normalized: Ids,
) -> list[int]:
    """Documents shorter than a run that are, as a whole, documents of the datastore."""
    ends = np.cumsum(counts)
    short = {
        int(number): tokens[ends[number] - counts[number] : ends[number]].tobytes()
        for number in np.flatnonzero((counts > 0) & (counts < RUN))
    }
    if not short:
        return []
    known: set[bytes] = set()
    stop = 0
    for length in stored_lengths:
        start, stop = stop, stop + length
        if length < _LONGEST_SHORT:
            words = normalized[stored[start:stop]]
            known.add(words[words >= 0].tobytes())
    return [number for number, content in short.items() if content in known]


def _in_shared_runs(
    tokens: Ids, numbers: Ids, stored: NDArray[np.int32], normalized: Ids
) -> NDArray[np.bool_]:
    """Which tokens are inside a run that the datastore holds too; runs do not cross documents."""
    runs = _run_hashes(tokens)
    inside = numbers[: len(runs)] == numbers[RUN - 1 :] if len(runs) else np.empty(0, bool)
    wanted = np.unique(runs[inside])
    is_stored = np.zeros(len(wanted), bool)
    for start in range(0, len(stored) if len(wanted) else 0, _BLOCK):
        # a little more than a block, so that no run is cut; what is dropped makes runs longer
        block = normalized[stored[start : start + _BLOCK + 4 * RUN]]
        hashes = _run_hashes(block[block >= 0])
        nearest = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        is_stored[nearest[wanted[nearest] == hashes]] = True
    starts = np.flatnonzero(inside)
    starts = starts[is_stored[np.searchsorted(wanted, runs[starts])]]
    ends = np.zeros(len(tokens) + 1, np.int64)
    np.add.at(ends, starts, 1)
    np.add.at(ends, starts + RUN, -1)
    return np.cumsum(ends)[:-1] > 0


def _run_hashes(tokens: Ids) -> NDArray[np.uint64]:
    """A hash of every run of RUN tokens: Σ m(t_i) b^(i - start), modulo 2^64.

    From prefix sums, so that the cost does not depend on RUN; b is odd and has an inverse.
    """
    if len(tokens) < RUN:
        return np.empty(0, np.uint64)
    with np.errstate(over="ignore"):
        terms = _mixed(tokens) * _powers(_BASE, len(tokens))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return (sums[RUN:] - sums[:-RUN]) * _powers(_INVERSE, len(tokens) - RUN + 1)


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """base^0 … base^(count-1) modulo 2^64, by doubling."""
    powers = np.ones(count, np.uint64)
    done = 1
    while done < count:
        more = min(done, count - done)
        powers[done : done + more] = powers[:more] * np.uint64(pow(base, done, 1 << 64))
        done += more
    return powers


def _mixed(tokens: Ids) -> NDArray[np.uint64]:
    """Numbers whose bits do not show that tokens are small."""
    mixed = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(29))
