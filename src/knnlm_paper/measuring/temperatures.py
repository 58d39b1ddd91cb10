"""Votes at a temperature: one τ with its λ, the best τ, and what they gave. Knows log-probabilities
only."""

from knnlm.components.knn import TargetVotes
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.tuning import TemperaturePoint, temperature_sweep
from knnlm_paper.measurement import TauPoint
from knnlm_paper.measuring.base_lm import Logs


def at_tau(lm: Logs, votes: TargetVotes, tau: float) -> TemperaturePoint:
    """One τ with its λ."""
    (point,) = temperature_sweep(lm, votes, [tau])
    return point


def best_tau(
    lm: Logs, votes: TargetVotes, least: TemperaturePoint | None = None
) -> TemperaturePoint:
    """The best τ with its λ; no worse than `least`, by default τ = 1."""
    return min(
        [*temperature_sweep(lm, votes), least or at_tau(lm, votes, 1.0)],
        key=lambda point: point.ppl,
    )


def tau_point(lm: Logs, votes: Logs, point: TemperaturePoint) -> TauPoint:
    """What a τ and its λ gave.

    Args:
        lm: log p of the test text under the LM.
        votes: The same under the neighbors, at that τ.
        point: τ and λ, and what they gave on validation text.
    """
    return TauPoint(
        temperature=point.tau,
        units=point.units,
        lam=point.lam,
        valid_ppl=point.ppl,
        ppl=perplexity(mix(lm, votes, point.lam)),
    )
