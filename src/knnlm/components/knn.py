"""The kNN component: neighbors vote for their tokens.

    p_kNN(v) = Σ_{i: token_i = v} softmax(score/τ)_i     = M · softmax(mask-to-k(W_ds ⊗ h_ds)/τ)

Our `tau` is the paper's temperature; M is never a matrix here but a comparison (evaluation) or a
scatter (generation). Log space throughout; a target that no neighbor voted for has log p = -inf,
and a missing neighbor never votes. Neighbors of an evaluation text come from the cache, those of a
text that is being generated from a live search: the same neighbors, and the same probabilities."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm import defaults
from knnlm.components.base import (
    Component,
    Loader,
    Logs,
    Predicted,
    Queries,
    SavedState,
    ScoredTokens,
    TargetScores,
)
from knnlm.components.outputs import Votes, count_votes
from knnlm.components.vote_grid import VoteGrid
from knnlm.datastore import Entries, evenly_spaced
from knnlm.errors import KnnlmError
from knnlm.ranges import check_temperature
from knnlm.search import (
    NeighborBlocks,
    Neighbors,
    NeighborsInMemory,
    Retrieval,
    RetrievalFields,
    Search,
    cached_neighbors,
    exact_search,
    open_index,
    open_search,
    recall,
)
from knnlm.stored_fields import Temperature
from knnlm.typed_json import from_json
from knnlm.workers import on_all_cores

_BLOCK, _GRID_BLOCK = 1 << 12, 1 << 10
_LEAST_EXPONENT = -80.0
"""PyTorch's exp takes a hundred times as long where the result is subnormal or zero."""


class _SavedFields(RetrievalFields):
    """Its retrieval and its τ."""

    tau: Temperature


@dataclass(frozen=True, eq=False)
class KNN(Component):
    """The nearest entries of a datastore vote.

    Args:
        entries: The datastore.
        retrieval: Which hidden state, metric, index, scores and k.
        tau: The retrieval temperature τ.

    Example:
        >>> knn = KNN(open_entries("store"), Retrieval(key="att", k=64), tau=10.0)  # doctest: +SKIP
        >>> knn.logprobs(states)  # (B, V)                                          # doctest: +SKIP
    """

    kind: ClassVar[str] = "knn"

    entries: Entries
    retrieval: Retrieval = field(default_factory=Retrieval)
    tau: float = 1.0
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_temperature(self.tau)
        object.__setattr__(self, "keys", (self.retrieval.key,))

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return self.entries.vocab_size

    @property
    def multiplications(self) -> int | None:
        """Those of an exact search for one token; None where an index searches."""
        width = self.entries.key(self.retrieval.key).type.width
        return self.entries.count * width if self.retrieval.exact else None

    @cached_property
    def search(self) -> Search:
        """The live search, opened (and what it reads verified) when it is first needed."""
        return open_search(self.entries, self.retrieval)

    def at_temperature(self, tau: float) -> Self:
        """The same neighbors at another τ; an open search is shared."""
        other = dataclasses.replace(self, tau=tau)
        if "search" in self.__dict__:
            other.__dict__["search"] = self.search
        return other

    def saved_state(self) -> SavedState:
        """How it retrieves, and its τ."""
        return SavedState(self.kind, {}, {**self.retrieval.as_json(), "tau": self.tau})

    @classmethod
    def from_saved_state(cls, state: SavedState, loader: Loader) -> Self:
        """The same way of retrieving from the loader's datastore."""
        entries = loader.datastore(cls.kind)
        fields = from_json(_SavedFields, state.fields, "fields")
        return cls(entries, Retrieval.from_json(state.fields), fields["tau"])

    def neighbors(self, states: torch.Tensor, k: int | None = None) -> Neighbors:
        """Neighbors of hidden states (B, D), rounded as the datastore's are."""
        dtype = self.entries.dtype
        rounded = states.detach().to(getattr(torch, dtype)).cpu()
        if not bool(torch.isfinite(rounded).all()):
            raise KnnlmError(
                f"a hidden state does not fit the datastore's {dtype}: build it with dtype float32"
            )
        return self.search(rounded.numpy(), k)

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p_kNN over the vocabulary (B, V) for hidden states (B, D), on their device."""
        return self.predict(states).logprobs

    def predict(
        self, states: torch.Tensor, k: int | None = None, near: Neighbors | None = None
    ) -> Predicted:
        """The same, with the neighbors that voted."""
        if near is None:
            near = self.neighbors(states)
        near = near.head(self.retrieval.k if k is None else k)
        logs = vocabulary_logprobs(near, self.entries.targets, self.vocab_size, self.tau)
        return Predicted(logs.to(states.device), near)

    def votes(self, states: torch.Tensor, near: Neighbors | None = None) -> Votes:
        """log p_kNN of the tokens that were voted for, and the neighbors."""
        near = self.neighbors(states) if near is None else near
        return count_votes(near, self.entries.targets, self.vocab_size, self.tau)

    def retrieve(self, states: torch.Tensor, k: int) -> Neighbors:
        """The k nearest entries of hidden states, also more than vote."""
        return self.neighbors(states, k)

    def score_tokens(self, states: torch.Tensor, targets: torch.Tensor) -> ScoredTokens:
        """log p_kNN of one token for each hidden state, and the neighbors that voted."""
        near = self.neighbors(states)
        hits = (self.entries.targets[near.ids] == targets.cpu().numpy()[:, None]) & (near.ids >= 0)
        return ScoredTokens(_log_votes(hits, near.scores, self.tau), near)

    def prepare(self) -> None:
        """Open the search."""
        _ = self.search

    def recall(self, queries: Queries) -> float:
        """Share of the true k neighbors that the search finds, on some queries spread over a
        text."""
        if self.retrieval.index is None:
            return 1.0
        retrieval, column = self.retrieval, self.entries.key(self.retrieval.key)
        rows = evenly_spaced(len(queries.targets), defaults.RECALL_QUERIES)
        states = queries.states(self.keys)[rows]
        index = open_index(self.entries, self.retrieval.index)
        truth = exact_search(states, column, retrieval.k, retrieval.metric)
        return recall(index.search(states, retrieval.k), truth)

    def target_scores(self, queries: Queries) -> "TargetVotes":
        """log p_kNN of a text's targets: neighbors from the cache, or searched for now."""
        if isinstance(queries, Entries):
            blocks: NeighborBlocks = cached_neighbors(self.entries, queries, self.retrieval)
        else:
            states = torch.from_numpy(np.asarray(queries.states(self.keys)))
            blocks = NeighborsInMemory(self.neighbors(states))
        return TargetVotes(blocks, self.entries.targets, queries.targets)


class TargetVotes(TargetScores):
    """p_kNN of the true tokens of a text at any τ and k: neighbors are compared with them once.

    `hits` says which neighbors hold the query's own target, one byte for each; scores stay on disk.
    """

    def __init__(
        self,
        neighbors: NeighborBlocks,
        tokens: NDArray[np.int32],
        targets: NDArray[np.int32],
    ) -> None:
        if len(neighbors) != len(targets):
            raise ValueError(f"{len(neighbors)} queries but {len(targets)} targets")
        self.neighbors, self.k = neighbors, neighbors.k
        self.hits = np.empty((len(targets), neighbors.k), bool)
        for start, near in self._blocks():
            block = slice(start, start + len(near.ids))
            self.hits[block] = (tokens[near.ids] == targets[block, None]) & (near.ids >= 0)

    def head(self, k: int) -> "TargetVotes":
        """The votes of the k nearest only, without comparing them again."""
        nearest = object.__new__(TargetVotes)
        nearest.neighbors, nearest.k, nearest.hits = self.neighbors, k, self.hits[:, :k]
        return nearest

    def sample(self, rows: NDArray[np.integer]) -> "TargetVotes":
        """The votes for some queries, in memory."""
        kept = []
        for start, near in self._blocks():
            low, high = np.searchsorted(rows, (start, start + len(near.ids)))
            some = rows[low:high] - start
            kept.append(Neighbors(near.ids[some, : self.k], near.scores[some, : self.k]))
        votes = object.__new__(TargetVotes)
        ids, scores = (np.concatenate(blocks) for blocks in zip(*kept, strict=True))
        votes.neighbors = NeighborsInMemory(Neighbors(ids, scores))
        votes.k, votes.hits = self.k, self.hits[rows]
        return votes

    @cached_property
    def unit(self) -> float:
        """The median over queries of (best score - median score of its neighbors).

        Raw temperatures differ a hundredfold between layers and models; in this unit they compare.
        """
        spreads = []
        for _, near in self._blocks():
            ids, scores = near.ids[:, : self.k], near.scores[:, : self.k]
            scores = np.where(ids < 0, np.nan, scores)
            have = ~np.isnan(scores[:, 0])
            spreads.append(scores[have, 0] - np.nanmedian(scores[have], axis=1))
        median = float(np.median(np.concatenate(spreads)))
        return median if median > 0 else 1.0

    def logprobs(self, tau: float) -> Logs:
        """log p_kNN(target) of every query."""
        return self.several([tau])[0]

    def several(self, taus: Sequence[float]) -> list[Logs]:
        """The same at several τ: neighbors are read once, and a block is a core's work."""
        for tau in taus:
            check_temperature(tau)
        logs = np.empty((len(taus), len(self.hits)), np.float64)

        def fill(start: int) -> None:
            block = slice(start, start + _BLOCK)
            scores = self.neighbors.read(start, start + _BLOCK).scores[:, : self.k]
            for at_tau, tau in zip(logs, taus, strict=True):
                at_tau[block] = _log_votes(self.hits[block], scores, tau)

        on_all_cores(fill, range(0, len(self.hits), _BLOCK))
        return list(logs)

    def grid(
        self, ks: Sequence[int], taus: Sequence[float], start: int, stop: int
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """log p_kNN(target) for every k and τ, some queries at a time, on one core.

        Args:
            ks: How many of the nearest vote: ascending.
            taus: Retrieval temperatures.
            start: The first query.
            stop: The query after the last.

        Yields:
            Some queries that have a hit, and their log p (k, τ, query). That of the queries left
            out is -inf.
        """
        grid, widest = VoteGrid(ks, taus), ks[-1]
        for left in range(start, stop, _GRID_BLOCK):
            right = min(left + _GRID_BLOCK, stop)
            scores, hits = self.neighbors.read(left, right).scores, self.hits[left:right]
            covered = np.flatnonzero(hits[:, :widest].any(axis=1))
            yield left + covered, grid.logprobs(scores, hits, covered)

    @property
    def coverage(self) -> float:
        """Share of queries whose target at least one neighbor holds."""
        return float(self.hits.any(axis=1).mean())

    def _blocks(self) -> Iterator[tuple[int, Neighbors]]:
        for start in range(0, len(self.neighbors), _BLOCK):
            yield start, self.neighbors.read(start, start + _BLOCK)


def log_weights(scores: NDArray[np.float32], tau: float) -> NDArray[np.float32]:
    """log softmax(score/τ) of each query's neighbors (B, K); -inf for a missing one."""
    check_temperature(tau)
    scaled = _scaled(scores, tau)
    weights: NDArray[np.float32] = (scaled - _log_total(scaled)[:, None]).numpy()
    return weights


def vocabulary_logprobs(
    near: Neighbors, tokens: NDArray[np.int32], vocab_size: int, tau: float
) -> torch.Tensor:
    """log p_kNN over the vocabulary (B, V); only the tokens that were voted for are computed."""
    return count_votes(near, tokens, vocab_size, tau).dense(vocab_size)


def _log_votes(hits: NDArray[np.bool_], scores: NDArray[np.float32], tau: float) -> Logs:
    """log of the share of the vote that the neighbors in `hits` (B, K) have."""
    scaled, voted = _scaled(scores, tau), torch.from_numpy(hits)
    held = scaled.masked_fill(~voted, -math.inf)
    best = torch.where(voted.any(1), held.max(1).values, 0.0)
    weights = (held - best[:, None]).clamp_(min=_LEAST_EXPONENT).exp_()
    sums = torch.where(voted.any(1), weights.sum(1), 0.0)
    total = scaled.clamp(min=_LEAST_EXPONENT).logsumexp(1)
    votes: Logs = (best + sums.log() - total).double().numpy()
    return votes


def _scaled(scores: NDArray[np.float32], tau: float) -> torch.Tensor:
    """(score - best)/τ: the same softmax; fp32 keeps its digits where scores are large and
    close."""
    values = torch.from_numpy(np.ascontiguousarray(scores, np.float32))
    best = values.max(1, keepdim=True).values
    return (values - torch.where(torch.isfinite(best), best, 0.0)) / tau


def _log_total(scores: torch.Tensor) -> torch.Tensor:
    """log of the sum of all votes; 0 where there is no neighbor at all, so that -inf stays -inf."""
    total = scores.logsumexp(1)
    return torch.where(torch.isneginf(total), torch.zeros_like(total), total)
