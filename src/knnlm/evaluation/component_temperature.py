"""The τ of a component that mixes best with an LM on a validation text, λ fitted exactly at each τ.

    log P = log( (1-λ) p_LM + λ softmax(scores/τ) )

A component learned at τ = 1 has learned its own peakiness from rows that the LM was trained on; on
other text another τ may be better, and clusters know no τ at all. Looked for first on a wide grid,
since far from the best nothing changes, and then closely. Knows nothing of how components are
learned."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from knnlm.components.single import Single
from knnlm.evaluation.metrics import evenly_spaced, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.progress import ProgressBar

_FACTORS = tuple(4.0**e for e in range(-6, 7))
_COARSE_ROWS = 2048
_STEP = 0.05
Logs = NDArray[np.floating]


class AtTau(NamedTuple):
    """A component at its τ, its λ, the validation text's log p, and the perplexity of the
    mixture."""

    component: Single
    lam: float
    logprobs: NDArray[np.float64]
    ppl: float


def at_tau(
    component: Single, tau: float, lm: Logs, states: NDArray[Any], targets: NDArray[np.integer]
) -> AtTau:
    """One τ."""
    moved = component._replace(tau=tau)
    return _mixed(moved, lm, moved.target_logprobs(states, targets))


def at_best_tau(
    component: Single,
    lm: Logs,
    states: NDArray[Any],
    targets: NDArray[np.integer],
) -> AtTau:
    """The best τ for one LM, no worse than the one it has."""
    return at_best_taus(component, [lm], states, targets)[0]


def at_best_taus(
    component: Single,
    lms: Sequence[Logs],
    states: NDArray[Any],
    targets: NDArray[np.integer],
) -> list[AtTau]:
    """The same for several LMs. The wide grid is of some rows spread over the text; no rows are
    looked at twice at one τ."""
    some = evenly_spaced(len(targets), _COARSE_ROWS)
    grid = [component.tau * factor for factor in _FACTORS]
    reach = math.log(_FACTORS[1] / _FACTORS[0])
    looked: dict[float, NDArray[np.float64]] = {}
    with ProgressBar("τ and λ", None, "tokens") as meter:

        def logs_at(tau: float) -> NDArray[np.float64]:
            if tau not in looked:
                looked[tau] = component._replace(tau=tau).target_logprobs(states, targets)
                meter.advance(len(targets), f"τ {tau:.3g}")
            return looked[tau]

        coarse = []
        for tau in grid:
            if len(some) == len(targets):
                coarse.append(logs_at(tau))
                continue
            coarse.append(component._replace(tau=tau).target_logprobs(states[some], targets[some]))
            meter.advance(len(coarse[-1]), f"τ {tau:.3g}")
        found = []
        for lm in lms:
            ppls = [perplexity(mix(lm[some], logs, fit_lambda(lm[some], logs))) for logs in coarse]
            near = math.log(grid[int(np.argmin(ppls))])

            def at(tau: float, lm: Logs = lm) -> AtTau:
                return _mixed(component._replace(tau=tau), lm, logs_at(tau))

            best = minimize_scalar(
                lambda x, at=at: at(math.exp(x)).ppl,
                bounds=(near - reach, near + reach),
                method="bounded",
                options={"xatol": _STEP},
            )
            points = [at(tau) for tau in (math.exp(best.x), math.exp(near), component.tau)]
            found.append(min(points, key=lambda point: point.ppl))
    return found


def _mixed(component: Single, lm: Logs, logs: NDArray[np.float64]) -> AtTau:
    lam = fit_lambda(lm, logs)
    return AtTau(component, lam, logs, perplexity(mix(lm, logs, lam)))
