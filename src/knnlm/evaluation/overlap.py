"""Whether a text is in a datastore: then its tokens would retrieve themselves, and every number
would flatter.

    share = letters inside runs of RUN letters that the datastore holds too / all letters

Letters are what is left of a text without its layout (letters.py), and runs are compared by rolling
hashes. So a copy is recognized whatever its line ends, its container, its indentation, its line
numbers or how it is wrapped; so are a part of one, one whose lines are in another order, and one in
which every twentieth word was replaced. Documents shorter than a run are compared as a whole. Other
text of the same kind shares such runs too (license notes, tables), which is why a share is allowed;
docs/LOG.md has the measurements behind the limits.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.evaluation.letters import Letters, letters_of, mostly_digits

RUN = 60
"""Letters in a row that count as shared: about thirteen words."""
WHOLE = 0.9
"""A document of which this share is in the datastore is in it."""
LEAST_LETTERS = 200
"""Shorter documents are not judged one by one."""
SMALL_SHARE, LARGE_SHARE = 0.05, 0.2
"""A text is refused if documents that are in the datastore make up the first share of it, or shared
runs the second. Of fewer documents those that are in it are left out."""
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_BITS = 24
_LAST_BITS = np.uint64((1 << _BITS) - 1)

Ids = NDArray[np.int64]


class Overlap(NamedTuple):
    """How much of a text a datastore holds.

    Attributes:
        share: Share of the text's letters inside shared runs.
        documents: Numbers of the documents that are in the datastore as a whole.
        documents_share: Share of the text's letters that those documents have.
        total: How many documents the text has.
        sharing: Numbers of the documents that share runs, the one with most letters in them first.
    """

    share: float
    documents: tuple[int, ...]
    documents_share: float
    total: int
    sharing: tuple[int, ...] = ()

    @property
    def large(self) -> bool:
        """Whether the text would say little about unseen text."""
        return self.documents_share >= SMALL_SHARE or self.share >= LARGE_SHARE


def find_overlap(documents: Sequence[str], stored: Iterable[str]) -> Overlap:
    """How much of a text is in a datastore.

    Args:
        documents: The documents of the text.
        stored: Those of the datastore; they are looked at one after the other.
    """
    digits = mostly_digits("".join(documents))
    spelled = [letters_of(document, digits=digits) for document in documents]
    counts = np.array([len(letters) for letters in spelled], np.int64)
    numbers = np.repeat(np.arange(len(documents)), counts)
    letters = np.concatenate([np.empty(0, np.uint32), *spelled])
    runs = _Runs(letters, numbers)
    short = {n: _content(documents[n], spelled[n]) for n in np.flatnonzero(counts < RUN).tolist()}
    known: set[bytes] = set()
    for document in stored:
        content = letters_of(document, digits=digits)
        runs.look_for(content)
        if len(content) < RUN:
            known.add(_content(document, content))
    shared = runs.shared()
    copies = [number for number, content in short.items() if content and content in known]
    shared |= np.isin(numbers, copies)
    in_runs = np.bincount(numbers, weights=shared, minlength=len(documents))
    shares = in_runs / np.maximum(counts, 1)
    whole = (shares >= WHOLE) & (counts >= LEAST_LETTERS)
    # a document without a letter is as long as its characters
    weights = np.where(counts > 0, counts, [len(document) for document in documents])
    silent = [number for number in copies if counts[number] == 0]
    whole[silent] = True
    total = max(1, int(weights.sum()))
    return Overlap(
        share=float((shared.sum() + weights[silent].sum()) / total),
        documents=tuple(np.flatnonzero(whole).tolist()),
        documents_share=float(weights[whole].sum() / total),
        total=len(documents),
        sharing=tuple(n for n in np.argsort(-in_runs, kind="stable").tolist() if in_runs[n] > 0),
    )


def _content(document: str, letters: Letters) -> bytes:
    """What a short document is compared by: its letters, or all it has where it has none."""
    if len(letters):
        return letters.tobytes()
    return "".join(document.split()).encode("utf-8", "surrogatepass")


class _Runs:
    """The runs of a text, and which of them were seen elsewhere. Runs do not cross documents."""

    def __init__(self, letters: Letters, numbers: Ids) -> None:
        self.length, hashes = len(letters), _run_hashes(letters)
        one_document = numbers[: len(hashes)] == numbers[RUN - 1 :] if len(hashes) else []
        self.starts = np.flatnonzero(one_document)
        self.wanted, self.which = np.unique(hashes[self.starts], return_inverse=True)
        self.seen = np.zeros(len(self.wanted), bool)
        # most runs of other texts are none of these: their last bits say so at once
        self.possible = np.zeros(1 << _BITS, bool)
        self.possible[self.wanted & _LAST_BITS] = True

    def look_for(self, letters: Letters) -> None:
        """Mark those that another text has too."""
        hashes = _run_hashes(letters)
        hashes = hashes[self.possible[hashes & _LAST_BITS]]
        if len(hashes):
            nearest = np.minimum(np.searchsorted(self.wanted, hashes), len(self.wanted) - 1)
            self.seen[nearest[self.wanted[nearest] == hashes]] = True

    def shared(self) -> NDArray[np.bool_]:
        """Which letters are inside a run that was seen."""
        starts = self.starts[self.seen[self.which]]
        ends = np.zeros(self.length + 1, np.int64)
        np.add.at(ends, starts, 1)
        np.add.at(ends, starts + RUN, -1)
        return np.cumsum(ends)[:-1] > 0


def _run_hashes(letters: Letters) -> NDArray[np.uint64]:
    """A hash of every run of RUN letters: Σ m(l_i) b^(i - start), modulo 2^64.

    From prefix sums, so that the cost does not depend on RUN; b is odd and has an inverse.
    """
    if len(letters) < RUN:
        return np.empty(0, np.uint64)
    with np.errstate(over="ignore"):
        terms = _mixed(letters) * _powers(_BASE, len(letters))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return (sums[RUN:] - sums[:-RUN]) * _powers(_INVERSE, len(letters) - RUN + 1)


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """base^0 … base^(count-1) modulo 2^64, by doubling."""
    powers = np.ones(count, np.uint64)
    done = 1
    while done < count:
        more = min(done, count - done)
        powers[done : done + more] = powers[:more] * np.uint64(pow(base, done, 1 << 64))
        done += more
    return powers


def _mixed(letters: Letters) -> NDArray[np.uint64]:
    """Numbers whose bits do not show that letters are small."""
    mixed = (letters.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(29))
