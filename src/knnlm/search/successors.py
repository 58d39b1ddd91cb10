"""The neighbors of the next step, from those of this one: RetoMaton's pointers (Alon et al., 2022).

The entry that follows a neighbor in its document is a likely neighbor of the next step, if the
token between the two is the one that was just chosen. As long as enough of them remain they vote,
with exact scores, and nothing is searched. Which entries remain depends on tokens that were read,
never on the one that is predicted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Entries
from knnlm.errors import UsageError
from knnlm.search.exact import with_exact_scores
from knnlm.search.neighbors import MISSING, Neighbors
from knnlm.search.open import Search
from knnlm.search.retrieval import Retrieval


class SuccessorSearch:
    """Neighbors of some sequences, step by step: successors of the last ones, or a search.

    Args:
        store: The datastore.
        retrieval: How it is searched.
        search: The search.
        least: Search unless at least so many successors remain.

    Attributes:
        steps: Steps so far, of all sequences together.
        searches: How many of them were searches.

    Raises:
        UsageError: `least` is out of range.
    """

    def __init__(self, store: Entries, retrieval: Retrieval, search: Search, least: int) -> None:
        if least < 1:
            raise UsageError(f"`reuse` {least} is out of range: choose 1 or more")
        self.retrieval, self.search, self.least = retrieval, search, least
        self.targets, self.documents = store.targets, store.document_numbers
        self.keys = store.key(retrieval.key)
        self.steps = self.searches = 0
        self._last: NDArray[np.int64] | None = None

    def __call__(self, states: NDArray[Any], tokens: NDArray[np.integer] | None) -> Neighbors:
        """Neighbors of the next hidden state of each sequence.

        Args:
            states: (B, D), as the search takes them.
            tokens: (B,) the token that each sequence read since the last call; None begins new
                sequences.

        Returns:
            Neighbors (B, k); those of a sequence that was not searched for are fewer, and scored
            exactly.
        """
        ids = np.full((len(states), self.retrieval.k), MISSING, np.int64)
        if tokens is not None and self._last is not None:
            ids = successors(self._last, tokens, self.targets, self.documents)
        few = np.flatnonzero((ids >= 0).sum(axis=1) < self.least)
        self.steps += len(states)
        self.searches += len(few)
        if len(few) == len(states):
            near = self.search(states)
        else:
            ids[few] = MISSING
            near = with_exact_scores(
                Neighbors(ids, np.empty(ids.shape, np.float32)),
                states,
                self.keys,
                self.retrieval.metric,
            )
            if len(few):
                near.ids[few], near.scores[few] = self.search(states[few])
        self._last = near.ids
        return near


def successors(
    ids: NDArray[np.int64],
    tokens: NDArray[np.integer],
    targets: NDArray[np.int32],
    documents: NDArray[np.int32],
) -> NDArray[np.int64]:
    """The entries that follow those whose token was read, in the same document.

    Args:
        ids: (B, K) entries; a missing one is negative.
        tokens: (B,) the token that was read.
        targets: The token of every entry.
        documents: The document of every entry.

    Returns:
        (B, K) entries; MISSING where an entry has another token, or is the last of its document.
    """
    after = np.minimum(ids + 1, len(targets) - 1)
    follows = (ids >= 0) & (after > ids) & (targets[ids] == tokens[:, None])
    follows &= documents[after] == documents[ids]
    return np.where(follows, after, MISSING)
