"""What components return for hidden states: log p over the vocabulary, or of some tokens only."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.ranges import check_temperature
from knnlm.search import Neighbors


class ScoredTokens(NamedTuple):
    """log p of tokens under a component, and the neighbors that voted (None: nothing retrieved)."""

    logprobs: NDArray[np.float64]
    neighbors: Neighbors | None


class Predicted(NamedTuple):
    """log p over the vocabulary (B, V), and the neighbors that voted (None: nothing retrieved)."""

    logprobs: torch.Tensor
    neighbors: Neighbors | None


class Votes(NamedTuple):
    """log p of the tokens that neighbors voted for; every other token has p = 0.

    Attributes:
        tokens: (B, K) the token of each neighbor; one may occur often.
        logprobs: (B, K) log p of that token, the same wherever it occurs.
        neighbors: The neighbors. A missing one names token 0, with the log p that token 0 has.
    """

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    neighbors: Neighbors

    def dense(self, vocab_size: int) -> torch.Tensor:
        """log p over the vocabulary (B, V)."""
        logs = torch.full((len(self.tokens), vocab_size), -torch.inf)
        return logs.scatter_(1, torch.from_numpy(self.tokens), torch.from_numpy(self.logprobs))


def count_votes(near: Neighbors, tokens: NDArray[np.int32], vocab_size: int, tau: float) -> Votes:
    """log p_kNN of the tokens that were voted for.

    NumPy on one core: this takes less time than handing it to threads.

    Args:
        near: The neighbors (B, K).
        tokens: The token of every entry.
        vocab_size: How many tokens there are.
        tau: The retrieval temperature τ.

    Raises:
        KnnlmError: A neighbor's token is outside the vocabulary.
    """
    check_temperature(tau)
    missing = near.ids < 0
    voted = np.where(missing, 0, tokens[near.ids]).astype(np.int64)
    if voted.size and int(voted.max()) >= vocab_size:
        raise KnnlmError(
            f"the datastore holds token {int(voted.max())} but the vocabulary has {vocab_size} "
            "entries: use the model that it was built with"
        )
    scores = np.where(missing, -np.inf, near.scores.astype(np.float64))
    best = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp((scores - np.where(np.isneginf(best), 0.0, best)) / tau)
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total > 0, total, 1.0)
    rows = np.arange(len(voted))[:, None] * vocab_size
    _, which = np.unique(voted + rows, return_inverse=True)
    with np.errstate(divide="ignore"):  # votes that underflow
        logs = np.log(np.bincount(which.ravel(), weights.ravel()))
    return Votes(voted, logs[which].reshape(voted.shape).astype(np.float32), near)
