"""What the steps of one generation leave behind: for the next step, and for an explanation."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import Component, Votes
from knnlm.datastore import Entries
from knnlm.errors import UsageError
from knnlm.evaluation import mix
from knnlm.search import Neighbors, SuccessorSearch


class TokenScores(NamedTuple):
    """What the model gave to known tokens: natural log-probabilities, and what was retrieved."""

    lm: NDArray[np.float64]
    component: NDArray[np.float64]
    mixed: NDArray[np.float64]
    neighbors: Neighbors | None
    """None where the component retrieves nothing."""


class Steps:
    """The steps of one sequence, each of which predicts one token.

    Args:
        component: What is mixed with the base LM.
        entries: The datastore.
        reuse: Search only where fewer successors of the last neighbors remain; None: always.

    Raises:
        UsageError: `reuse` is out of range, or the component retrieves nothing.
    """

    def __init__(self, component: Component, entries: Entries, reuse: int | None = None) -> None:
        self.successors: SuccessorSearch | None = None
        if reuse is not None:
            how = component.retrieval
            if how is None:
                raise UsageError("`reuse` belongs to a search: leave it out with `component`")

            def search(states: NDArray[Any], k: int | None = None) -> Neighbors:
                near = component.retrieve(torch.from_numpy(states), how.k if k is None else k)
                assert near is not None
                return near

            self.successors = SuccessorSearch(entries, how, search, reuse)
        self._read: int | None = None
        self._logs: list[tuple[float, float]] = []
        self._neighbors: list[Neighbors] = []
        self._lm = self._other = torch.empty(0)
        self._votes: Votes | None = None

    @property
    def searches(self) -> int:
        """How many steps searched."""
        return len(self._neighbors) if self.successors is None else self.successors.searches

    def begin(self, token: int) -> None:
        """A step begins with the token that the last one chose, or with the prompt's last."""
        if len(self._lm):
            self._choose(token)
            self._read = token

    def neighbors(self, states: torch.Tensor) -> Neighbors | None:
        """The neighbors of this step's hidden state (1, D); None: the component searches."""
        if self.successors is None:
            return None
        tokens = None if self._read is None else np.array([self._read])
        return self.successors(states.cpu().numpy(), tokens)

    def keep(self, lm: torch.Tensor, other: Votes | torch.Tensor) -> None:
        """log p_LM (V,) of this step, and what the component gave: its votes, or its log p (V,)."""
        self._lm = lm
        if isinstance(other, Votes):
            self._votes = other
            self._neighbors.append(other.neighbors)
        else:
            self._other = other

    def scores(self, tokens: list[int], lam: float) -> TokenScores | None:
        """What the tokens that were chosen got; None if these steps did not choose them."""
        if len(self._lm):
            self._choose(tokens[-1])
        if len(self._logs) != len(tokens):
            return None
        lm, other = np.array(self._logs, np.float64).T
        near = None
        if self._neighbors:
            ids, scores = (np.concatenate(some) for some in zip(*self._neighbors, strict=True))
            near = Neighbors(ids, scores)
        return TokenScores(lm, other, mix(lm, other, lam), near)

    def _choose(self, token: int) -> None:
        """Of the last step only what its token got is kept."""
        if self._votes is None:
            other = float(self._other[token])
        else:
            hits = np.flatnonzero(self._votes.tokens[0] == token)
            other = float(self._votes.logprobs[0, hits[0]]) if len(hits) else -np.inf
        self._logs.append((float(self._lm[token]), other))
        self._lm, self._votes = torch.empty(0), None
