"""The kNN component: neighbours vote for their tokens.

    p_kNN(v) = Σ_{i: token_i = v} softmax(score/τ)_i          = M · softmax(mask-to-k(W_ds ⊗ h_ds)/τ)

Our `tau` is the paper's temperature; M is never a matrix here but a comparison (evaluation) or a
scatter (generation). Log space throughout; a target that no neighbour voted for has log p = -inf,
and a missing neighbour never votes. Knows nothing of how neighbours were found or of λ."""

import copy
import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import Retrieval, Search, open_search

_BLOCK = 1 << 12


class NeighborBlocks(Protocol):
    """Neighbours that can be read a block of queries at a time."""

    k: int

    def __len__(self) -> int: ...
    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbours of queries start … stop-1."""
        ...


def check_tau(tau: float) -> None:
    """Refuse a temperature that is not a positive number."""
    if not (math.isfinite(tau) and tau > 0):
        raise UsageError(
            f"temperature {tau} of the neighbours is out of range: choose a number above 0"
        )


class TargetVotes:
    """p_kNN of the true tokens of a text at any τ and k: the neighbours are searched and compared
    once.

    `hits` says which neighbours hold the query's own target, one byte for each; scores stay on
    disk."""

    def __init__(
        self, neighbors: NeighborBlocks, tokens: NDArray[np.int32], targets: NDArray[np.int32]
    ) -> None:
        if len(neighbors) != len(targets):
            raise ValueError(f"{len(neighbors)} queries but {len(targets)} targets")
        self.neighbors, self.k = neighbors, neighbors.k
        self.hits = np.empty((len(targets), neighbors.k), bool)
        for start, near in self._blocks():
            block = slice(start, start + len(near.ids))
            self.hits[block] = (tokens[near.ids] == targets[block, None]) & (near.ids >= 0)

    def head(self, k: int) -> "TargetVotes":
        """The votes of the k nearest only, without looking at them again."""
        found = copy.copy(self)
        found.k, found.hits = k, self.hits[:, :k]
        return found

    def logprobs(self, tau: float, k: int | None = None) -> NDArray[np.float64]:
        """log p_kNN(target) of every query."""
        check_tau(tau)
        k = self.k if k is None else k
        found = np.empty(len(self.hits), np.float64)
        for start, near in self._blocks():
            stop = start + len(near.ids)
            found[start:stop] = _votes_for(self.hits[start:stop, :k], near.scores[:, :k], tau)
        return found

    def coverage(self, k: int | None = None) -> float:
        """Share of queries whose target at least one neighbour holds."""
        return float(self.hits[:, : k or self.k].any(axis=1).mean())

    def spread(self, k: int | None = None) -> float:
        """The unit of τ: the median over queries of (best score - median score of its neighbours).

        Raw temperatures differ a hundredfold between layers and models; in this unit they are
        comparable."""
        k = self.k if k is None else k
        spreads = []
        for _, near in self._blocks():
            scores = np.where(near.ids[:, :k] < 0, np.nan, near.scores[:, :k])
            have = ~np.isnan(scores[:, 0])
            spreads.append(scores[have, 0] - np.nanmedian(scores[have], axis=1))
        found = float(np.median(np.concatenate(spreads)))
        return found if found > 0 else 1.0

    def _blocks(self) -> Iterator[tuple[int, Neighbors]]:
        for start in range(0, len(self.neighbors), _BLOCK):
            yield start, self.neighbors.read(start, start + _BLOCK)


def weights(scores: NDArray[np.float32], tau: float) -> NDArray[np.float32]:
    """log softmax(score/τ) of each query's neighbours (B, K); -inf for a missing one."""
    check_tau(tau)
    scaled = _scaled(scores, tau)
    found: NDArray[np.float32] = (scaled - _total(scaled)[:, None]).numpy()
    return found


def vocabulary_logprobs(
    near: Neighbors, tokens: NDArray[np.int32], vocab_size: int, tau: float
) -> torch.Tensor:
    """log p_kNN over the whole vocabulary (B, V), for generation; only the tokens that were voted
    for are computed."""
    check_tau(tau)
    missing = torch.from_numpy(near.ids < 0)
    votes = torch.from_numpy(tokens[near.ids].astype(np.int64)).masked_fill(missing, 0)
    if votes.numel() and int(votes.max()) >= vocab_size:
        raise KnnlmError(
            f"the store holds token {int(votes.max())} but the vocabulary has {vocab_size} "
            "entries: use the model "
            "that it was built with"
        )
    scores = _scaled(np.where(near.ids < 0, np.float32(-np.inf), near.scores), tau)
    mass = torch.zeros(len(votes), vocab_size, dtype=torch.float64)
    mass.scatter_add_(1, votes, (scores - _total(scores)[:, None]).double().exp())
    found = torch.full((len(votes), vocab_size), -math.inf)
    return found.scatter_(1, votes, mass.gather(1, votes).log().float())


class KNN(NamedTuple):
    """The component as a predictor: states in, log p_kNN over the vocabulary out. Safe for
    concurrent calls."""

    key: str
    search: Search
    tokens: NDArray[np.int32]
    vocab_size: int
    tau: float
    dtype: str
    """Type of the stored states; queries are rounded to it, so that evaluation and generation ask
    the same."""

    def near(self, states: torch.Tensor) -> Neighbors:
        """Neighbours of states (B, D)."""
        rounded = states.detach().to(getattr(torch, self.dtype)).cpu()
        if not bool(torch.isfinite(rounded).all()):
            raise KnnlmError(
                f"a state does not fit the store's {self.dtype}: build the store with --dtype "
                "float32"
            )
        return self.search(rounded.numpy())

    def target_logprobs(self, near: Neighbors, targets: NDArray[np.integer]) -> NDArray[np.float64]:
        """log p_kNN of one target for each query, as evaluation computes it."""
        hits = (self.tokens[near.ids] == targets[:, None]) & (near.ids >= 0)
        return _votes_for(hits, near.scores, self.tau)

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p_kNN (B, V) for states (B, D), on their device."""
        found = vocabulary_logprobs(self.near(states), self.tokens, self.vocab_size, self.tau)
        return found.to(states.device)


def open_knn(store: Entries, what: Retrieval, tau: float) -> KNN:
    """The kNN component of a store."""
    check_tau(tau)
    return KNN(
        what.key, open_search(store, what), store.targets, store.vocab_size, tau, store.dtype
    )


def _votes_for(
    hits: NDArray[np.bool_], scores: NDArray[np.float32], tau: float
) -> NDArray[np.float64]:
    """log of the share of the vote that the neighbours in `hits` (B, K) have."""
    scaled = _scaled(scores, tau)
    votes = scaled.masked_fill(~torch.from_numpy(hits), -math.inf).logsumexp(1) - _total(scaled)
    found: NDArray[np.float64] = votes.double().numpy()
    return found


def _scaled(scores: NDArray[np.float32], tau: float) -> torch.Tensor:
    """(score - best)/τ: the same softmax, and fp32 keeps its digits where scores are large and
    close together."""
    values = torch.from_numpy(np.ascontiguousarray(scores, np.float32))
    best = values.max(1, keepdim=True).values
    return (values - torch.where(torch.isfinite(best), best, 0.0)) / tau


def _total(scores: torch.Tensor) -> torch.Tensor:
    """log of the sum of all votes; 0 where there is no neighbour at all, so that -inf stays
    -inf."""
    total = scores.logsumexp(1)
    return torch.where(torch.isneginf(total), torch.zeros_like(total), total)
