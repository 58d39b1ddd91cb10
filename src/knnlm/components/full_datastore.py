"""The equation without its mask: every entry of the datastore votes.

    p(v) = Σ_{i: token_i = v} softmax(W_ds ⊗ h_ds / τ)_i          over all i

Neighbors are its largest terms. Entries are read once, a block at a time, and their weights summed
as they come, for several τ at once; the largest score is taken out."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.base import (
    Component,
    Loader,
    Logs,
    Queries,
    SavedState,
    TargetScores,
)
from knnlm.components.head import row_scores
from knnlm.datastore import Entries, evenly_spaced
from knnlm.progress import ProgressBar
from knnlm.ranges import check_temperature
from knnlm.similarity import Metric, checked_metric
from knnlm.stored_fields import Key, MetricName, Temperature
from knnlm.typed_json import from_json

_QUERIES, _ENTRIES = 1024, 4096
_SAMPLE = 512


class _SavedFields(TypedDict):
    key: Key
    metric: MetricName
    tau: Temperature


@dataclass(frozen=True, eq=False)
class FullDatastore(Component):
    """All entries of a datastore vote: exact, and slow."""

    kind: ClassVar[str] = "full-datastore"

    entries: Entries
    key: str
    metric: Metric = "l2"
    tau: float = 1.0
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_temperature(self.tau)
        object.__setattr__(self, "keys", (self.key,))

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return self.entries.vocab_size

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return self.entries.count * self.entries.key(self.key).type.width

    def at_temperature(self, tau: float) -> Self:
        """The same component at another τ."""
        return dataclasses.replace(self, tau=tau)

    def saved_state(self) -> SavedState:
        """Which entries are compared and how, and its τ."""
        fields = {"key": self.key, "metric": self.metric, "tau": self.tau}
        return SavedState(self.kind, {}, fields)

    @classmethod
    def from_saved_state(cls, state: SavedState, loader: Loader) -> Self:
        """The same comparison with the loader's datastore."""
        entries = loader.datastore(cls.kind)
        fields = from_json(_SavedFields, state.fields, "fields")
        return cls(entries, fields["key"], checked_metric(fields["metric"]), fields["tau"])

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, D), on their device."""
        h = states.detach().float().cpu()
        best = torch.full((len(h),), -torch.inf)
        mass = torch.zeros(len(h), self.vocab_size, dtype=torch.float64)
        for stored, tokens in self._blocks():
            scores = row_scores(stored, h, self.metric, self.tau)
            higher = torch.maximum(best, scores.amax(1))
            mass *= torch.where(best == -torch.inf, 0.0, (best - higher).double().exp())[:, None]
            mass.index_add_(1, tokens, (scores - higher[:, None]).double().exp())
            best = higher
        return (mass.log() - mass.sum(1, keepdim=True).log()).float().to(states.device)

    def target_scores(self, queries: Queries) -> TargetScores:
        """log p of a text's targets, at any τ."""
        return _AllVotes(self, queries.states(self.keys), queries.targets)

    def _blocks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Stored hidden states and their tokens, a block at a time."""
        tokens = torch.from_numpy(self.entries.targets.astype(np.int64))
        for start, rows in self.entries.key(self.key).blocks(_ENTRIES):
            stored = torch.from_numpy(rows.astype(np.float32))
            yield stored, tokens[start : start + len(rows)]


class _AllVotes(TargetScores):
    """The votes of all entries for a text's targets; several τ share one pass over the entries."""

    first_look = _SAMPLE

    def __init__(
        self, component: FullDatastore, states: NDArray[Any], targets: NDArray[np.integer]
    ) -> None:
        self.component, self.states, self.targets = component, states, targets

    @property
    def unit(self) -> float:
        """How much the scores of one query differ, as a standard deviation."""
        c = self.component
        sampled = c.entries.key(c.key).gather(evenly_spaced(c.entries.count, _SAMPLE))
        rows = torch.from_numpy(sampled.astype(np.float32))
        asked = self.states[evenly_spaced(len(self.states), _SAMPLE)]
        queries = torch.from_numpy(asked.astype(np.float32))
        spread = float(row_scores(rows, queries, c.metric, 1.0).std(1, correction=0).mean())
        return spread if spread > 0 else 1.0

    def sample(self, rows: NDArray[np.integer]) -> TargetScores:
        return _AllVotes(self.component, self.states[rows], self.targets[rows])

    def logprobs(self, tau: float) -> Logs:
        return self.several([tau])[0]

    def several(self, taus: Sequence[float]) -> list[Logs]:
        for tau in taus:
            check_temperature(tau)
        states = torch.from_numpy(self.states.astype(np.float32))
        targets = torch.from_numpy(self.targets.astype(np.int64))
        blocks = [slice(i, i + _QUERIES) for i in range(0, len(targets), _QUERIES)]
        sums = [_Sums(len(targets[block]), taus) for block in blocks]
        with ProgressBar("all entries vote", self.component.entries.count, "entries") as bar:
            for stored, tokens in self.component._blocks():
                for block, so_far in zip(blocks, sums, strict=True):
                    scores = row_scores(stored, states[block], self.component.metric, 1.0)
                    so_far.add(scores, tokens[None] == targets[block, None])
                bar.advance(len(tokens))
        return list(np.concatenate([so_far.logprobs() for so_far in sums], axis=1))


class _Sums:
    """Σ exp(score/τ) of all entries so far, and of those that hold the target.

    Each sum has its best score taken out, so that nothing overflows.
    """

    def __init__(self, queries: int, taus: Sequence[float]) -> None:
        self.taus = taus
        self.best = torch.full((queries,), -torch.inf)
        self.best_held = torch.full((queries,), -torch.inf)
        self.all = torch.zeros(len(taus), queries, dtype=torch.float64)
        self.held = torch.zeros_like(self.all)

    def add(self, scores: torch.Tensor, hits: torch.Tensor) -> None:
        """Add scores (B, R) of further entries; `hits` are those that hold the query's target.

        Changes `scores`.
        """
        queries, columns = hits.nonzero(as_tuple=True)
        held = scores[queries, columns]
        best = torch.maximum(self.best, scores.amax(1))
        best_held = self.best_held.scatter_reduce(0, queries, held, "amax")
        scores -= best[:, None]
        held = (held - best_held[queries]).double()
        for i, tau in enumerate(self.taus):
            self.all[i] *= _rescale(self.best, best, tau)
            self.all[i] += (scores / tau).exp_().sum(1)
            self.held[i] *= _rescale(self.best_held, best_held, tau)
            self.held[i].index_add_(0, queries, (held / tau).exp())
        self.best, self.best_held = best, best_held

    def logprobs(self) -> Logs:
        """log of the share of those that hold the target, (T, B)."""
        taus = torch.tensor(self.taus, dtype=torch.float64)[:, None]
        ratio = (self.best_held - self.best).double() / taus
        logs: Logs = (ratio + self.held.log() - self.all.log()).numpy()
        return logs


def _rescale(before: torch.Tensor, now: torch.Tensor, tau: float) -> torch.Tensor:
    """What a sum is worth when a better score is taken out of it; before the first it is empty."""
    return torch.where(before == -torch.inf, 0.0, ((before - now) / tau).double().exp())
