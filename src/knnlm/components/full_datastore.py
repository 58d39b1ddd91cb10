"""The equation without its mask: every row of the store votes.

    p(w) = Σ_{i: token_i = w} softmax(W_ds ⊗ h_ds / τ)_i          over all i

Neighbours are its largest terms. Rows are read once, a block at a time, and their weights summed as
they come, for several τ at once; the largest score is taken out. Knows nothing of λ or of files.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.head import row_scores
from knnlm.components.knn import check_tau
from knnlm.progress import ProgressBar
from knnlm.similarity import Metric

_QUERIES, _ROWS = 1024, 4096


class Rows(Protocol):
    """Stored states, a block at a time."""

    def blocks(self, size: int) -> Any:
        """(first row, states) pairs."""
        ...


def full_datastore_logprobs(
    keys: Rows,
    tokens: NDArray[np.integer],
    states: NDArray[Any],
    targets: NDArray[np.integer],
    metric: Metric,
    taus: Sequence[float],
) -> NDArray[np.float64]:
    """log p(target) (T, B) of every state at every τ; -inf where no row holds the target."""
    for tau in taus:
        check_tau(tau)
    asked, held = (
        torch.from_numpy(states.astype(np.float32)),
        torch.from_numpy(tokens.astype(np.int64)),
    )
    wanted = torch.from_numpy(targets.astype(np.int64))
    blocks = [slice(start, start + _QUERIES) for start in range(0, len(targets), _QUERIES)]
    sums = [_Sums(len(wanted[block]), taus) for block in blocks]
    with ProgressBar("all rows vote", len(tokens), "rows") as meter:
        for start, rows in keys.blocks(_ROWS):
            stored, words = (
                torch.from_numpy(rows.astype(np.float32)),
                held[start : start + len(rows)],
            )
            for block, so_far in zip(blocks, sums, strict=True):
                so_far.add(
                    row_scores(stored, asked[block], metric, 1.0),
                    words[None] == wanted[block, None],
                )
            meter.advance(len(rows))
    return np.concatenate([so_far.logprobs() for so_far in sums], axis=1)


class _Sums:
    """Σ exp(score/τ) of all rows so far and of those that hold the target; each has its best score
    taken out."""

    def __init__(self, queries: int, taus: Sequence[float]) -> None:
        self.taus = taus
        self.best, self.best_held = (
            torch.full((queries,), -torch.inf),
            torch.full((queries,), -torch.inf),
        )
        self.all = torch.zeros(len(taus), queries, dtype=torch.float64)
        self.held = torch.zeros_like(self.all)

    def add(self, scores: torch.Tensor, hits: torch.Tensor) -> None:
        """Scores (B, R) of further rows, and which of them hold their query's target. Changes
        `scores`."""
        who, which = hits.nonzero(as_tuple=True)
        held = scores[who, which]
        best = torch.maximum(self.best, scores.amax(1))
        best_held = self.best_held.scatter_reduce(0, who, held, "amax")
        scores -= best[:, None]
        held = (held - best_held[who]).double()
        for place, tau in enumerate(self.taus):
            self.all[place] *= _shrunk(self.best, best, tau)
            self.all[place] += (scores / tau).exp_().sum(1)
            self.held[place] *= _shrunk(self.best_held, best_held, tau)
            self.held[place].index_add_(0, who, (held / tau).exp())
        self.best, self.best_held = best, best_held

    def logprobs(self) -> NDArray[np.float64]:
        """log of the share of those that hold the target."""
        ratio = (self.best_held - self.best).double() / torch.tensor(
            self.taus, dtype=torch.float64
        )[:, None]
        found: NDArray[np.float64] = (ratio + self.held.log() - self.all.log()).numpy()
        return found


def _shrunk(before: torch.Tensor, now: torch.Tensor, tau: float) -> torch.Tensor:
    """What a sum is worth when a better score is taken out of it; nothing is in it before the
    first."""
    return torch.where(before == -torch.inf, 0.0, ((before - now) / tau).double().exp())
