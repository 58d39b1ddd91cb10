"""A learned component mixed with the LM and with the calibrated LM, λ fitted on validation text
each time, everything reported on test text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from knnlm.components import LearnedComponent, TargetScores
from knnlm.components.head import Head
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix, oracle
from knnlm.evaluation.tuning import RememberedScores, best_temperature
from knnlm.experiments.workspace import SearchData
from knnlm_paper.conditions.learned.condition import (
    AddedCost,
    Fit,
    Learned,
    LearnedMeasurement,
    LearnedPoint,
)
from knnlm_paper.conditions.learned.learner import LearnedPart, Learner
from knnlm_paper.measurement import MixturePoint
from knnlm_paper.measuring.base_lm import BaseLogs, Logs, base_numbers
from knnlm_paper.measuring.documents import DocumentSums

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


def measure_learned(condition: Learned, workspace: "PaperWorkspace") -> LearnedMeasurement:
    """One learned component."""
    data, base = workspace.plain(*condition.lm), workspace.base(*condition.lm)
    learner = workspace.tool(Learner)
    learned = learner.learned(condition)
    component, sums = learned.component, DocumentSums(data, base)
    scores = RememberedScores(component.target_scores(data.valid))
    as_learned = _at(component, scores, base.valid, component.tau)
    own, over = _at_best(component, scores, [base.valid, base.calibrated_valid])
    points = {}
    for name, at in (("as_learned", as_learned), ("own_tau", own)):
        test = learner.logprobs(condition, at.component, "test")
        points[name] = _point(base, at, test)
        sums.add(name, mix(base.test, test, at.lam))
        sums.add(f"{name}_alone", test)
    test = learner.logprobs(condition, over.component, "test")
    mixed = mix(base.calibrated_test, test, over.lam)
    sums.add("on_calibrated", mixed)
    return LearnedMeasurement(
        lm=workspace.lms.about(*condition.lm),
        base=base_numbers(base, data),
        added=added_cost([learned], data),
        fit=_fit(condition, learned, learner),
        **points,
        on_calibrated=MixturePoint(
            temperature=over.component.tau,
            lam=over.lam,
            valid_ppl=over.ppl,
            ppl=perplexity(mixed),
        ),
        documents=sums.collected(),
    )


class TunedParts:
    """log p of components that conditions combine, each at its best τ over the LM and over the
    calibrated one; found once for a workspace."""

    def __init__(self, workspace: "PaperWorkspace") -> None:
        self.workspace = workspace
        self._tuned: dict[Learned, list[tuple[Logs, Logs]]] = {}

    def logprobs(self, condition: Learned, calibrated: bool) -> tuple[Logs, Logs]:
        """Of the validation and of the test text."""
        if condition not in self._tuned:
            learner, base = self.workspace.tool(Learner), self.workspace.base(*condition.lm)
            component = learner.learned(condition).component
            valid = self.workspace.plain(*condition.lm).valid
            scores = RememberedScores(component.target_scores(valid))
            self._tuned[condition] = [
                (at.logprobs, learner.logprobs(condition, at.component, "test"))
                for at in _at_best(component, scores, [base.valid, base.calibrated_valid])
            ]
        return self._tuned[condition][calibrated]


def added_cost(parts: Sequence[LearnedPart], data: SearchData) -> AddedCost:
    """What parts add to the LM."""
    parameters = sum(part.parameters for part in parts)
    return AddedCost(
        parameters=parameters,
        multiplications=sum(part.component.multiplications or 0 for part in parts),
        widths=parameters / (data.store.vocab_size * data.store.key("ffn").type.width),
    )


def _fit(condition: Learned, learned: LearnedPart, learner: Learner) -> Fit | None:
    if learned.fitted is None or learned.rate is None:
        return None
    pilots = learner.pilots(condition)
    return Fit(
        rate=learned.rate,
        steps=learned.fitted.steps,
        best_step=learned.fitted.best_step,
        rates={f"{rate:g}": fit.valid_loss for rate, fit in pilots.items()},
        alike=alike(learned.component),
    )


def alike(component: LearnedComponent) -> float | None:
    """Mean cosine of the embeddings of one token with each other, over tokens that have several:
    near one, they are the same embedding several times."""
    if not isinstance(component, Head) or int(component.counts.max()) == 1:
        return None
    unit = component.weight / component.weight.norm(dim=1, keepdim=True)
    tokens = torch.repeat_interleave(torch.arange(len(component.counts)), component.counts)
    sums = torch.zeros(len(component.counts), unit.shape[1]).index_add(0, tokens, unit)
    n = component.counts.double()
    pairs = (sums.double().square().sum(1) - n) / (n * (n - 1)).clamp_min(1)
    return round(float(pairs[component.counts > 1].mean()), 6)


class _AtTau(NamedTuple):
    """A component at its τ, its λ, the validation text's log p, and the mixture's perplexity."""

    component: LearnedComponent
    lam: float
    logprobs: Logs
    ppl: float


def _at(component: LearnedComponent, scores: TargetScores, lm: Logs, tau: float) -> _AtTau:
    logs = scores.logprobs(tau)
    lam = fit_lambda(lm, logs)
    return _AtTau(component.at_temperature(tau), lam, logs, perplexity(mix(lm, logs, lam)))


def _at_best(
    component: LearnedComponent, scores: TargetScores, lms: Sequence[Logs]
) -> list[_AtTau]:
    """At the τ that is best for each LM; what was computed at a τ serves all of them."""
    best = [best_temperature(lm, scores) for lm in lms]
    return [_at(component, scores, lm, point.tau) for lm, point in zip(lms, best, strict=True)]


def _point(base: BaseLogs, at: _AtTau, test: Logs) -> LearnedPoint:
    return LearnedPoint(
        temperature=at.component.tau,
        lam=at.lam,
        valid_ppl=at.ppl,
        ppl=perplexity(mix(base.test, test, at.lam)),
        alone_valid_ppl=perplexity(at.logprobs),
        alone_ppl=perplexity(test),
        oracle=perplexity(oracle(base.test, test)),
        helping=helping(base.test, test),
    )
