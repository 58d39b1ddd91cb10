"""Tuning on one text, reporting on another: store + queries + retrieval → λ, τ and perplexities.

The neighbours are searched once (search/cache.py) and every τ is a pass over them with λ fitted
exactly. Knows nothing of files of text or of models: queries arrive as states."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components.base import Predictor
from knnlm.components.knn import TargetVotes, check_tau
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.evaluation.metrics import evenly_spaced, helping, perplexity, ratio_interval
from knnlm.evaluation.mixing import check_lambda, fit_lambda, mix, oracle
from knnlm.search.cache import cached_neighbors
from knnlm.search.exact import check_k, exact_search
from knnlm.search.index import open_index
from knnlm.search.neighbors import recall
from knnlm.search.retrieval import EXACT, Retrieval

_COARSE = tuple(2.0**e for e in range(-8, 9, 2))
_WIDEST = 2.0**24
_RECALL_QUERIES = 128


class TunedSettings(NamedTuple):
    """Settings found on a validation text. τ = `temperature` = `temperature_units` × the
    neighbours' score spread."""

    retrieval: Retrieval
    lam: float
    temperature: float
    temperature_units: float
    base_ppl: float
    interp_ppl: float
    tokens: int
    text: str = ""
    """Fingerprint of the validation text's description."""


class TauPoint(NamedTuple):
    """One τ of a sweep, with its best λ."""

    temperature: float
    units: float
    lam: float
    ppl: float


class Evaluation(NamedTuple):
    """What retrieval, or a component in its place, does for a text. The names are those of `knnlm
    eval --json`."""

    tokens: int
    words: int
    base_ppl: float
    component_ppl: float
    interp_ppl: float
    oracle_ppl: float
    base_word_ppl: float
    interp_word_ppl: float
    oracle_word_ppl: float
    lam: float
    temperature: float
    temperature_units: float | None
    k: int | None
    coverage: float
    helping: float
    recall: float | None
    ratio: float
    ratio_ci95: tuple[float, float] | None
    ratio_ci95_unit: str | None


def from_fields(fields: Mapping[str, Any]) -> Evaluation:
    """An Evaluation from its JSON fields; the one number that may be infinite, and so null there,
    is a perplexity."""
    found: dict[str, Any] = {
        n: math.inf if value is None and n == "component_ppl" else value
        for n, value in fields.items()
    }
    limits = fields["ratio_ci95"]
    found["ratio_ci95"], found["ratio_ci95_unit"] = (
        limits and tuple(limits),
        fields["ratio_ci95_unit"],
    )
    return Evaluation(**found)


class Scored(NamedTuple):
    """log p of every target of a text: the LM's and the neighbours'."""

    lm: NDArray[np.float64]
    knn: NDArray[np.float64]


def votes_of(
    store: Entries,
    queries: Entries,
    what: Retrieval,
) -> TargetVotes:
    """The neighbours' votes for the true tokens of `queries`."""
    return TargetVotes(cached_neighbors(store, queries, what), store.targets, queries.targets)


def tune(
    store: Entries,
    queries: Entries,
    what: Retrieval,
    *,
    temperatures: Sequence[float] | None = None,
    ks: Sequence[int] | None = None,
) -> TunedSettings:
    """The λ, τ (and k, of several) of the lowest perplexity on `queries`."""
    lm = queries.lm_logprob.astype(np.float64)
    best: TunedSettings | None = None
    for k in sorted(
        set(ks or (what.k,)), reverse=True
    ):  # the smaller ones are heads of the first search
        check_k(k)
        at_k = Retrieval(key=what.key, metric=what.metric, mask=what.mask, score=what.score, k=k)
        votes = votes_of(store, queries, at_k)
        point = min(tau_sweep(lm, votes, temperatures), key=lambda p: p.ppl)
        if best is None or point.ppl < best.interp_ppl:
            best = TunedSettings(
                at_k, point.lam, point.temperature, point.units, perplexity(lm), point.ppl, len(lm)
            )
    assert best is not None
    return best


def tau_sweep(
    lm: NDArray[np.float64], votes: TargetVotes, temperatures: Sequence[float] | None = None
) -> list[TauPoint]:
    """Perplexity at each τ with its own λ, in order of τ. Without a given grid: coarse, widened,
    then refined."""
    unit = votes.spread()
    points: dict[float, TauPoint] = {}

    def visit(units: float) -> TauPoint:
        if units not in points:
            points[units] = _point(lm, votes, units * unit, units)
        return points[units]

    if temperatures is not None:
        if not temperatures:
            raise UsageError("no temperature given: give at least one")
        for tau in temperatures:
            check_tau(tau)
            visit(tau / unit)
        return sorted(points.values())
    for units in _COARSE:
        visit(units)
    _widen(points, visit)
    _refine(points, visit)
    return sorted(points.values())


def lambda_curve(scored: Scored, tokens: int = 41) -> list[tuple[float, float]]:
    """(λ, perplexity) over [0, 1), for plots."""
    grid = np.linspace(0, 0.98, tokens)
    return [(float(lam), perplexity(mix(scored.lm, scored.knn, float(lam)))) for lam in grid]


def score(
    store: Entries,
    queries: Entries,
    tuned: TunedSettings,
) -> Scored:
    """log p of every target under the tuned retrieval."""
    votes = votes_of(store, queries, tuned.retrieval)
    return Scored(queries.lm_logprob.astype(np.float64), votes.logprobs(tuned.temperature))


def evaluate(
    store: Entries,
    queries: Entries,
    tuned: TunedSettings,
) -> Evaluation:
    """All numbers of a text at given settings."""
    check_tau(tuned.temperature)
    what = tuned.retrieval
    votes = votes_of(store, queries, what)
    units = tuned.temperature_units
    if not math.isfinite(units):  # settings that nobody tuned: the text's own unit
        units = tuned.temperature / votes.spread()
    return _numbers(
        queries,
        votes.logprobs(tuned.temperature),
        tuned.lam,
        temperature=tuned.temperature,
        temperature_units=units,
        k=what.k,
        coverage=votes.coverage(),
        recall=measured_recall(store, queries, what),
    )


def evaluate_component(queries: Entries, component: Predictor, lam: float) -> Evaluation:
    """All numbers of a text with a component in the place of the search: no k, no recall."""
    logs = component.target_logprobs(queries.states(component.keys), queries.targets)
    return _numbers(
        queries,
        logs,
        lam,
        temperature=component.tau,
        temperature_units=None,
        k=None,
        coverage=float(np.isfinite(logs).mean()),
        recall=None,
    )


def _numbers(queries: Entries, other: NDArray[np.float64], lam: float, **fields: Any) -> Evaluation:
    """What a second predictor does for a text at a given λ; `fields` are those that only its kind
    knows."""
    check_lambda(lam)
    lm = queries.lm_logprob.astype(np.float64)
    mixed, best = mix(lm, other, lam), oracle(lm, other)
    interval = ratio_interval(lm, mixed, queries.table.columns["document"].all())
    return Evaluation(
        tokens=len(lm),
        words=queries.words,
        base_ppl=perplexity(lm),
        component_ppl=perplexity(other),
        interp_ppl=perplexity(mixed),
        oracle_ppl=perplexity(best),
        base_word_ppl=perplexity(lm, queries.words),
        interp_word_ppl=perplexity(mixed, queries.words),
        oracle_word_ppl=perplexity(best, queries.words),
        lam=lam,
        helping=helping(lm, other),
        ratio=perplexity(mixed) / perplexity(lm),
        ratio_ci95=None if interval is None else (interval.low, interval.high),
        ratio_ci95_unit=None if interval is None else interval.unit,
        **fields,
    )


def measured_recall(store: Entries, queries: Entries, what: Retrieval) -> float:
    """Share of the true k neighbours that the mask holds, on up to 128 queries spread over the
    text."""
    if what.mask == EXACT:
        return 1.0
    rows = evenly_spaced(queries.count, _RECALL_QUERIES)
    states = queries.key(what.key).gather(rows)
    found = open_index(store, what.mask).search(states, what.k)
    return recall(found, exact_search(states, store.key(what.key), what.k, what.metric))


def _point(lm: NDArray[np.float64], votes: TargetVotes, tau: float, units: float) -> TauPoint:
    knn = votes.logprobs(tau)
    lam = fit_lambda(lm, knn)
    return TauPoint(tau, units, lam, perplexity(mix(lm, knn, lam)))


def _widen(points: dict[float, TauPoint], visit: Callable[[float], TauPoint]) -> None:
    """While the best τ is at an end of the range, go further; a plateau ends it."""
    while True:
        best = min(points.values(), key=lambda p: p.ppl).units
        if best == max(points) and best < _WIDEST:
            visit(best * 4)
        elif best == min(points) and best > 1 / _WIDEST:
            visit(best / 4)
        else:
            return


def _refine(points: dict[float, TauPoint], visit: Callable[[float], TauPoint]) -> None:
    """Halve the (logarithmic) steps around the best τ until they are below 2%."""
    step = 2.0
    while step > 1.02:
        best = min(points.values(), key=lambda p: p.ppl).units
        visit(best * step)
        visit(best / step)
        step = math.sqrt(step)
