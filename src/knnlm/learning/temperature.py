"""The τ of a learned component that mixes best with the LM on a validation text, λ fitted exactly at each τ.

    log P = log( (1-λ) p_LM + λ softmax(scores/τ) )

A component learned at τ = 1 has learned its own peakiness from rows that the LM was trained on; on other text another τ
may be better. Knows nothing of how components are learned.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from knnlm.components.saved import Component
from knnlm.metrics import perplexity
from knnlm.mixture import fit_lambda, mix

REACHES = (2.0, 16.0, 1024.0)
"""How far τ may go from where it is, in either direction; farther only where the best lies at an end."""
_STEP = 0.05


class AtTau(NamedTuple):
    """A component at its τ, its λ, the validation text's log p, and the perplexity of the mixture."""

    component: Component
    lam: float
    logprobs: NDArray[np.float64]
    ppl: float


def at_tau(
    component: Component,
    tau: float,
    lm: NDArray[np.floating],
    states: NDArray[Any],
    targets: NDArray[np.integer],
) -> AtTau:
    """One τ."""
    moved = component._replace(tau=tau)
    logs = moved.target_logprobs(states, targets)
    lam = fit_lambda(lm, logs)
    return AtTau(moved, lam, logs, perplexity(mix(lm, logs, lam)))


def at_best_tau(
    component: Component, lm: NDArray[np.floating], states: NDArray[Any], targets: NDArray[np.integer]
) -> AtTau:
    """The best τ, no worse than the one it has; wider where the best lies at an end."""
    best = at_tau(component, component.tau, lm, states, targets)
    middle = math.log(component.tau)
    for reach in (math.log(times) for times in REACHES):
        found = minimize_scalar(
            lambda x: at_tau(component, math.exp(x), lm, states, targets).ppl,
            bounds=(middle - reach, middle + reach), method="bounded", options={"xatol": _STEP},
        )  # fmt: skip
        there = at_tau(component, math.exp(float(found.x)), lm, states, targets)
        best = min(best, there, key=lambda point: point.ppl)
        if abs(float(found.x) - middle) < reach - 2 * _STEP:
            break
    return best
