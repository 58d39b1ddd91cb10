"""The equation without its mask: every row of the store votes.

    p(w) = Σ_{i: token_i = w} softmax(W_ds ⊗ h_ds / τ)_i          over all i

What neighbours, indexes and clusters approximate. Rows are read a block at a time and their weights summed as they
come, for several τ at once; the largest score is taken out. Knows nothing of λ or of files.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.embeddings import row_scores
from knnlm.components.knn import check_tau
from knnlm.progress import Meter
from knnlm.similarity import Metric

_QUERIES, _ROWS = 1024, 4096


class Rows(Protocol):
    """Stored states, a block at a time."""

    def blocks(self, size: int) -> Any:
        """(first row, states) pairs."""
        ...


def unmasked_logprobs(
    keys: Rows,
    tokens: NDArray[np.integer],
    states: NDArray[Any],
    targets: NDArray[np.integer],
    metric: Metric,
    taus: Sequence[float],
    progress: bool = False,
) -> NDArray[np.float64]:
    """log p(target) (T, B) of every state at every τ; -inf where no row holds the target."""
    for tau in taus:
        check_tau(tau)
    found = np.empty((len(taus), len(targets)))
    queries, wanted = torch.from_numpy(states.astype(np.float32)), torch.from_numpy(targets.astype(np.int64))
    held = torch.from_numpy(tokens.astype(np.int64))
    with Meter("all rows vote", len(targets), "tokens", progress) as meter:
        for start in range(0, len(targets), _QUERIES):
            block = slice(start, start + _QUERIES)
            found[:, block] = _votes(keys, held, queries[block], wanted[block], metric, taus)
            meter.advance(len(wanted[block]))
    return found


def _votes(
    keys: Rows,
    tokens: torch.Tensor,
    queries: torch.Tensor,
    targets: torch.Tensor,
    metric: Metric,
    taus: Sequence[float],
) -> NDArray[np.float64]:
    """log Σ exp(score/τ) of the rows that hold the target, less that of all rows."""
    every = torch.full((len(queries),), -torch.inf)
    mine = torch.full((len(queries),), -torch.inf)  # best scores so far, of all rows and of those that hold the target
    of_all = torch.zeros(len(taus), len(queries), dtype=torch.float64)
    of_mine = torch.zeros_like(of_all)
    for start, rows in keys.blocks(_ROWS):
        scores = row_scores(torch.from_numpy(rows.astype(np.float32)), queries, metric, 1.0)
        who, which = (tokens[None, start : start + len(rows)] == targets[:, None]).nonzero(as_tuple=True)
        held = scores[who, which]
        best, best_held = torch.maximum(every, scores.amax(1)), mine.scatter_reduce(0, who, held, "amax")
        scores -= best[:, None]
        held = (held - best_held[who]).double()
        for place, tau in enumerate(taus):
            of_all[place] *= _shrunk(every, best, tau)
            of_all[place] += (scores / tau).exp_().sum(1)
            of_mine[place] *= _shrunk(mine, best_held, tau)
            of_mine[place].index_add_(0, who, (held / tau).exp())
        every, mine = best, best_held
    ratio = (mine - every).double() / torch.tensor(taus, dtype=torch.float64)[:, None]
    found: NDArray[np.float64] = (ratio + of_mine.log() - of_all.log()).numpy()
    return found


def _shrunk(before: torch.Tensor, now: torch.Tensor, tau: float) -> torch.Tensor:
    """What a sum is worth when a better score is taken out of it; nothing is in it before the first."""
    return torch.where(before == -torch.inf, 0.0, ((before - now) / tau).double().exp())
