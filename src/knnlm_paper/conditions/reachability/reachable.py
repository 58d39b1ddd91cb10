"""Stolen probabilities: which tokens can no state make the LM's most probable one?

    token v is reachable  ⟺  there is h with (W_v - W_u)·h > 0 for every other token u

An unreachable token lies inside the convex hull of the others (Demeter et al., 2020). Decided for
every token, not for a sample: most are shown to be reachable by a state that a perceptron finds,
all tokens at once; for each of the rest a linear program finds such a state or shows that there is
none, with only those tokens as constraints that matter. "None" means none that leads by an angle of
more than 1e-7: (W_v - W_u)·h ≤ 1e-7 for gaps of length one and |h| ≤ 1 in every coordinate, to the
solver's precision. Tokens with equal embeddings hide each other and count as unreachable. Knows
nothing of LMs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from knnlm.errors import KnnlmError

_AT_ONCE = 1 << 25  # scores in memory
_WORST = 64
_ROUNDING = 1e-13  # of a sum of products, as a share of the lengths multiplied
_ANGLE = 1e-7


class Reachable(NamedTuple):
    """Which tokens can be the most probable, and how many needed a linear program to know."""

    tokens: NDArray[np.bool_]
    linear_programs: int


def reachable_tokens(weight: NDArray[np.floating], rounds: int = 300) -> Reachable:
    """Of an output embedding (V, D)."""
    rows = np.asarray(weight, np.float64)
    rows = rows - rows.mean(axis=0)  # the same for every token, so it changes no comparison
    rows = rows / max(float(np.abs(rows).max()), 1e-300)
    states, reachable = _perceptron(rows, rounds)
    rest = np.flatnonzero(~reachable)
    for token in rest:
        reachable[token] = _linear_program(rows, int(token), states[token])
    return Reachable(reachable, len(rest))


def _perceptron(
    rows: NDArray[np.float64], rounds: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A state for every token, moved away from whichever token is still more probable; and for
    which tokens it worked."""
    states = rows.copy()
    reachable = np.zeros(len(rows), bool)
    for _ in range(rounds):
        left = np.flatnonzero(~reachable)
        if not len(left):
            break
        for some in np.array_split(left, -(-len(left) * len(rows) // _AT_ONCE)):
            rival, ahead = _rivals(rows, some, states[some])
            reachable[some] = ahead
            gap = rows[some] - rows[rival]
            size = np.linalg.norm(gap, axis=1, keepdims=True)
            states[some] += np.where(ahead[:, None], 0.0, gap / np.maximum(size, 1e-300))
    return states, reachable


def _rivals(
    rows: NDArray[np.float64], tokens: NDArray[np.integer], states: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The most probable other token at each token's state, and whether the token itself is more
    probable by more than rounding could do (rows are no longer than one in any coordinate)."""
    scores = states @ rows.T
    own = scores[np.arange(len(tokens)), tokens].copy()
    scores[np.arange(len(tokens)), tokens] = -np.inf
    rival = scores.argmax(axis=1)
    best = scores[np.arange(len(tokens)), rival]
    return rival, own - best > _ROUNDING * rows.shape[1] * np.linalg.norm(states, axis=1)


def _linear_program(rows: NDArray[np.float64], token: int, state: NDArray[np.float64]) -> bool:
    """max t with g_u·h ≥ t for some tokens u, g_u = (W_v - W_u)/‖W_v - W_u‖ and |h| ≤ 1, tokens
    added until they decide.

    If t is zero even for these, no state does it; if the state found is right for all tokens,
    one does."""
    gaps = np.delete(rows[token] - rows, token, axis=0)
    sizes = np.linalg.norm(gaps, axis=1, keepdims=True)
    if not sizes.all():
        return False  # another token has the same embedding
    gaps = gaps / sizes
    width = rows.shape[1]
    chosen = np.argsort(gaps @ state)[: 2 * width]
    objective = np.append(np.zeros(width), -1.0)
    bounds = [(-1.0, 1.0)] * width + [(None, 1.0)]
    while True:
        constraints = np.column_stack([-gaps[chosen], np.ones(len(chosen))])
        solved = linprog(
            objective, A_ub=constraints, b_ub=np.zeros(len(chosen)), bounds=bounds, method="highs"
        )
        if not solved.success:
            raise KnnlmError(
                f"the linear program of token {token} was not solved ({solved.message}): report it"
            )
        if float(solved.x[-1]) <= _ANGLE:
            return False
        lead = gaps @ solved.x[:-1]
        wrong = np.flatnonzero(lead <= _ANGLE)
        if not len(wrong):
            return True
        worst = wrong[np.argsort(lead[wrong])[:_WORST]]
        more = np.union1d(chosen, worst)
        if len(more) == len(
            chosen
        ):  # the solver's own tolerance: what it holds for right is not above ours
            return False
        chosen = more
