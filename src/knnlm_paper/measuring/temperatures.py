"""Votes at a temperature: one τ with its λ, the best τ, and what they gave. Knows log-probabilities
only."""

from knnlm.components.knn import TargetVotes
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.tuning import TemperaturePoint, temperature_sweep
from knnlm_paper.numbers import Logs, or_none


def at(lm: Logs, votes: TargetVotes, tau: float) -> TemperaturePoint:
    """One τ with its λ."""
    (point,) = temperature_sweep(lm, votes, [tau])
    return point


def best(lm: Logs, votes: TargetVotes, least: TemperaturePoint | None = None) -> TemperaturePoint:
    """The best τ with its λ; no worse than `least`, by default τ = 1."""
    return min(
        [*temperature_sweep(lm, votes), least or at(lm, votes, 1.0)], key=lambda point: point.ppl
    )


def knobs(point: TemperaturePoint) -> dict[str, float]:
    """τ and λ, and what they gave on validation text."""
    return {
        "temperature": point.tau,
        "units": point.units,
        "lambda": point.lam,
        "valid_ppl": point.ppl,
    }


def outcome(lm: Logs, votes: Logs, point: TemperaturePoint) -> dict[str, float | None]:
    """The same with the perplexity of the test text, of which `lm` and `votes` are; none where λ is
    one and the votes hold a token impossible."""
    return {**knobs(point), "ppl": or_none(perplexity(mix(lm, votes, point.lam)))}
