"""Tuning: the λ and τ at which any component mixes best with an LM on a validation text.

    log P = log( (1-λ) p_LM + λ p_component(· ; τ) )          λ fitted exactly at each τ

What does not depend on λ or τ (a search, above all) is done once; every τ is then a pass over it.
There is one search for τ. Perplexity as a function of log τ is smooth but flat far from its best,
so a local search alone can start on a plateau. Three steps, all in units of the component's own
scale: a coarse grid over five decades; wider, while the best is at its end; then ever smaller steps
around the best.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components import Component, Logs, TargetScores
from knnlm.datastore import Entries, evenly_spaced
from knnlm.errors import UsageError
from knnlm.evaluation.control import Control
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.evaluation.settings import CalibratedSettings, TunedSettings
from knnlm.files import fingerprint
from knnlm.progress import counted, log
from knnlm.ranges import check_temperature

LEAST_TOKENS, FEW_TOKENS = 50, 1000
FEW_DOCUMENTS = 5
"""What fits fewer documents than this may be a property of theirs."""
_COARSE = tuple(2.0**e for e in range(-8, 9, 2))
_WIDEST = 2.0**24


class TunedComponent(NamedTuple):
    """A component at its best τ, and the settings that say so."""

    component: Component
    settings: TunedSettings


def tune(
    component: Component,
    queries: Entries,
    *,
    name: str,
    taus: Sequence[float] | None = None,
    control: Control | None = None,
) -> TunedComponent:
    """The λ and τ at which a component lowers the perplexity of a validation text most.

    Args:
        component: Any component; a mixture has no τ, so only its λ is fitted.
        queries: The validation text: hidden states, targets and log p_LM.
        name: What the component is called in settings.
        taus: A grid of τ instead of a search.
        control: The calibrated LM of that text, for which λ and τ are found too.

    Returns:
        The component at its best τ, and its settings.

    Raises:
        UsageError: If `taus` is empty or holds a number that is not above zero.
    """
    lm = queries.lm_logprob.astype(np.float64)
    scores = component.target_scores(queries)
    point = min(temperature_sweep(lm, scores, taus), key=lambda point: point.ppl)
    settings = TunedSettings(
        component=name,
        retrieval=component.retrieval,
        lam=point.lam,
        tau=point.tau,
        tau_units=point.units,
        base_ppl=perplexity(lm),
        interp_ppl=point.ppl,
        tokens=len(lm),
        text=fingerprint(queries.meta["text"]),
        calibrated=None if control is None else _tune_on(control, scores, taus),
    )
    return TunedComponent(component.at_temperature(point.tau), settings)


def tune_best(
    candidates: Sequence[Component],
    queries: Entries,
    *,
    name: str,
    taus: Sequence[float] | None = None,
    control: Control | None = None,
) -> TunedComponent:
    """The best of several components, each at its own λ and τ: one component for each k, say."""
    tuned = [tune(each, queries, name=name, taus=taus, control=control) for each in candidates]
    return min(tuned, key=lambda each: each.settings.interp_ppl)


def _tune_on(
    control: Control, scores: TargetScores, taus: Sequence[float] | None
) -> CalibratedSettings:
    """λ and τ of a component that is mixed with the calibrated LM."""
    points = temperature_sweep(control.calibrated, scores.sample(control.rows), taus)
    point = min(points, key=lambda point: point.ppl)
    return CalibratedSettings(
        softmax_temperature=control.calibration.temperature,
        unigram_share=control.calibration.share,
        lam=point.lam,
        tau=point.tau,
        tokens=len(control.rows),
        base_ppl=perplexity(control.base),
        calibrated_ppl=perplexity(control.calibrated),
        calibrated_interp_ppl=point.ppl,
    )


def check_enough(tokens: int, documents: int) -> None:
    """Say that what is fitted on little text fits nothing else.

    Args:
        tokens: How many tokens the validation text has.
        documents: How many documents.

    Raises:
        UsageError: If it is a handful of tokens: settings of a longer text would be replaced.
    """
    if tokens < LEAST_TOKENS:
        raise UsageError(
            f"the validation text has only {tokens:,} tokens, on which nothing can be tuned: give "
            f"at least {LEAST_TOKENS}"
        )
    if tokens < FEW_TOKENS:
        log.warning(
            f"note: fitted on only {tokens:,} tokens, which says little of other text: give a "
            "longer text"
        )
    elif documents < FEW_DOCUMENTS:
        log.warning(
            f"note: fitted on only {counted(documents, 'document')}, which may be unlike others: "
            "give more documents"
        )


class TemperaturePoint(NamedTuple):
    """One τ of a search with its best λ. τ = `tau` = `units` × the component's own unit."""

    tau: float
    units: float
    lam: float
    ppl: float


class RememberedScores(TargetScores):
    """Scores that are computed once for each τ, where several LMs are mixed with one component."""

    def __init__(self, scores: TargetScores) -> None:
        self.scores = scores
        self.first_look, self.has_temperature = scores.first_look, scores.has_temperature
        self.precision = scores.precision
        self._logs: dict[float, Logs] = {}
        self._sample: tuple[NDArray[np.integer], TargetScores] | None = None

    @cached_property
    def unit(self) -> float:
        """The natural unit of τ for these scores, computed once."""
        return self.scores.unit

    def logprobs(self, tau: float) -> Logs:
        """log p(target) at τ."""
        return self.several([tau])[0]

    def several(self, taus: Sequence[float]) -> list[Logs]:
        """The same at several τ."""
        new = [tau for tau in dict.fromkeys(taus) if tau not in self._logs]
        if new:
            self._logs.update(zip(new, self.scores.several(new), strict=True))
        return [self._logs[tau] for tau in taus]

    def sample(self, rows: NDArray[np.integer]) -> TargetScores:
        """The same for some queries, remembered too."""
        if self._sample is None or not np.array_equal(self._sample[0], rows):
            self._sample = (rows, RememberedScores(self.scores.sample(rows)))
        return self._sample[1]


def best_temperature(
    lm: Logs, scores: TargetScores, *, precision: float | None = None
) -> TemperaturePoint:
    """The τ of the lowest perplexity on a validation text, with its λ.

    Args:
        lm: log p_LM of the text's targets.
        scores: The component's log p of the same targets at any τ.
        precision: The last step of the search is smaller than this factor; by default as the
            component's scores have it.

    Returns:
        The best τ that was tried; never worse than τ = the component's own unit.
    """
    points = temperature_sweep(lm, scores, precision=precision)
    return min(points, key=lambda point: point.ppl)


def temperature_sweep(
    lm: Logs,
    scores: TargetScores,
    taus: Sequence[float] | None = None,
    *,
    precision: float | None = None,
) -> list[TemperaturePoint]:
    """Perplexity at each τ with its own λ, in order of τ: at `taus`, or where it is best.

    Raises:
        UsageError: If `taus` is empty or holds a number that is not above zero.
    """
    unit = scores.unit

    def mixed(lm: Logs, scores: TargetScores, units: Sequence[float]) -> list[TemperaturePoint]:
        logs = scores.several([u * unit for u in units])
        return [_point(lm, log, u * unit, u) for log, u in zip(logs, units, strict=True)]

    if taus is not None:
        if not taus:
            raise UsageError("no temperature given: give at least one")
        for tau in taus:
            check_temperature(tau)
        logs = scores.several(taus)
        points_given = zip(taus, logs, strict=True)
        return sorted(_point(lm, log, tau, tau / unit) for tau, log in points_given)
    if not scores.has_temperature:
        return mixed(lm, scores, [1.0])
    points: dict[float, TemperaturePoint] = {}

    def visit(units: Iterable[float]) -> None:
        new = [u for u in dict.fromkeys(units) if u not in points]
        points.update(zip(new, mixed(lm, scores, new), strict=True))

    visit(_around_the_best(lm, scores, mixed) or _COARSE)
    if len(points) >= len(_COARSE):
        _widen(points, visit)
    _refine(points, visit, precision or scores.precision)
    return sorted(points.values())


def _around_the_best(
    lm: Logs,
    scores: TargetScores,
    mixed: Callable[[Logs, TargetScores, Sequence[float]], list[TemperaturePoint]],
) -> list[float]:
    """Where to look closely, by a first look at some queries; empty where all are looked at."""
    if scores.first_look is None or len(lm) <= scores.first_look:
        return []
    rows: NDArray[np.int64] = evenly_spaced(len(lm), scores.first_look)
    some, lm_of_some = scores.sample(rows), lm[rows]
    points: dict[float, TemperaturePoint] = {}

    def visit(units: Iterable[float]) -> None:
        new = [u for u in units if u not in points]
        points.update(zip(new, mixed(lm_of_some, some, new), strict=True))

    visit(_COARSE)
    _widen(points, visit)
    return [1.0, _best(points)]


def _best(points: dict[float, TemperaturePoint]) -> float:
    return min(points.values(), key=lambda point: point.ppl).units


def _widen(points: dict[float, TemperaturePoint], visit: Callable[[Iterable[float]], None]) -> None:
    """While the best τ is at an end of the range, go further; a plateau ends it."""
    while True:
        best = _best(points)
        if best == max(points) and best < _WIDEST:
            visit([best * 4])
        elif best == min(points) and best > 1 / _WIDEST:
            visit([best / 4])
        else:
            return


def _refine(
    points: dict[float, TemperaturePoint],
    visit: Callable[[Iterable[float]], None],
    precision: float,
) -> None:
    """Halve the (logarithmic) steps around the best τ until they are below the precision."""
    step = 2.0
    while step > precision:
        best = _best(points)
        visit([best * step, best / step])
        step = math.sqrt(step)


def _point(lm: Logs, logs: Logs, tau: float, units: float) -> TemperaturePoint:
    lam = fit_lambda(lm, logs)
    return TemperaturePoint(tau, units, lam, perplexity(mix(lm, logs, lam)))
