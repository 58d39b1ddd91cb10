"""Rows without a search → their records: a substitute mixed with the LM, or several of them at
once.

Every substitute is measured at the τ it was learned at (1, as in the paper; clusters learned
further began at a tuned τ) and at its own best τ; mixed with the LM and with the calibrated LM; λ
fitted on validation text each time, everything reported on test text."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from knnlm.components.base import LearnedComponent, TargetScores
from knnlm.components.head import Head
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix, oracle
from knnlm.evaluation.tuning import RememberedScores, best_temperature
from knnlm.experiments.workspace import SearchData
from knnlm_paper.apprentice import Apprentice, Taught
from knnlm_paper.numbers import Base, Logs, Sums, base_numbers, fitted_mixture, or_none
from knnlm_paper.rows import Arm, Combined, Learned


class LearnedBench:
    """Measures learned rows. `base` gives an LM's own log p; `votes` those of an arm's neighbours
    for both splits, at the τ that mixes best with given log p."""

    def __init__(
        self,
        apprentice: Apprentice,
        base: Callable[[str, int | None], Base],
        votes: Callable[[Arm, Logs], tuple[Logs, Logs]],
    ) -> None:
        self.apprentice, self.base, self.votes = apprentice, base, votes
        self._tuned: dict[Learned, list[_Part]] = {}

    def alone(self, row: Learned) -> dict[str, Any]:
        """One substitute."""
        base, m = self.base(*row.lm), self.apprentice.workshop.plain(*row.lm)
        taught = self.apprentice.taught(row)
        component, sums = taught.component, Sums(m, base)
        scores = RememberedScores(component.target_scores(m.valid))
        learned_at = _at(component, scores, base.valid, component.tau)
        best, over = _at_best(component, scores, [base.valid, base.calibrated_valid])
        record: dict[str, Any] = {"base": base_numbers(base, m), "learned": self._cost([taught], m)}
        if taught.fitted is not None:
            pilots = self.apprentice.pilots(row)
            record["learned"] |= {
                "rate": taught.rate,
                "steps": taught.fitted.steps,
                "best_step": taught.fitted.best_step,
                "rates": {
                    f"{rate:g}": or_none(fitted.valid_loss) for rate, fitted in pilots.items()
                },
                "alike": alike(component),
            }
        for name, point in (("as_learned", learned_at), ("tuned", best)):
            test = self.apprentice.logprobs(row, point.component, "test")
            mixed = mix(base.test, test, point.lam)
            record[name] = {
                **_knobs(point),
                "alone_valid_ppl": or_none(perplexity(point.logprobs)),
                "alone_ppl": or_none(perplexity(test)),
                "ppl": or_none(perplexity(mixed)),
                "oracle": perplexity(oracle(base.test, test)),
                "helping": helping(base.test, test),
            }
            sums.add(name, mixed)
            sums.add(f"{name}_alone", test)
        mixed = mix(
            base.calibrated_test, self.apprentice.logprobs(row, over.component, "test"), over.lam
        )
        record["on_calibrated"] = {**_knobs(over), "ppl": or_none(perplexity(mixed))}
        sums.add("on_calibrated", mixed)
        return {**record, "documents": sums.found}

    def combined(self, row: Combined) -> dict[str, Any]:
        """Several at once, over the LM and over the calibrated one: each at the τ that is best for
        it alone there, all weights fitted together."""
        base, m = self.base(*row.lm), self.apprentice.workshop.plain(*row.lm)
        sums, parts = Sums(m, base), [self.apprentice.taught(part) for part in row.parts]
        names = ("tuned", "on_calibrated")
        lms = {
            "tuned": (base.valid, base.test),
            "on_calibrated": (base.calibrated_valid, base.calibrated_test),
        }
        valid: dict[str, list[Logs]] = {name: [lms[name][0]] for name in names}
        test: dict[str, list[Logs]] = {name: [lms[name][1]] for name in names}
        for part, taught in zip(row.parts, parts, strict=True):
            for name, found in zip(names, self._part(part, taught.component, base, m), strict=True):
                valid[name].append(found.valid)
                test[name].append(found.test)
        record: dict[str, Any] = {"base": base_numbers(base, m), "learned": self._cost(parts, m)}
        for name in names:
            for arm in row.neighbours:
                for logs, votes in zip((valid, test), self.votes(arm, lms[name][0]), strict=True):
                    logs[name].append(votes)
            record[name], mixed = fitted_mixture(valid[name], test[name])
            sums.add(name, mixed)
        return {**record, "documents": sums.found}

    def _part(
        self, row: Learned, component: LearnedComponent, base: Base, m: SearchData
    ) -> "list[_Part]":
        """log p of a part of combinations, at its best τ over the LM and over the calibrated one;
        found once."""
        if row not in self._tuned:
            scores = RememberedScores(component.target_scores(m.valid))
            self._tuned[row] = [
                _Part(point.logprobs, self.apprentice.logprobs(row, point.component, "test"))
                for point in _at_best(component, scores, [base.valid, base.calibrated_valid])
            ]
        return self._tuned[row]

    def _cost(self, parts: Sequence[Taught], m: SearchData) -> dict[str, Any]:
        """What parts add to the LM; `widths` is in output embeddings, V×D."""
        parameters = sum(part.parameters for part in parts)
        return {
            "parameters": parameters,
            "multiplications": sum(part.component.multiplications or 0 for part in parts),
            "widths": parameters / (m.store.vocab_size * m.store.key("ffn").type.width),
        }


class _Part(NamedTuple):
    valid: Logs
    test: Logs


def alike(component: LearnedComponent) -> float | None:
    """Mean cosine of the embeddings of one word with each other, over words that have several: near
    one, they are the same embedding several times."""
    if not isinstance(component, Head) or int(component.counts.max()) == 1:
        return None
    unit = component.weight / component.weight.norm(dim=1, keepdim=True)
    words = torch.repeat_interleave(torch.arange(len(component.counts)), component.counts)
    sums = torch.zeros(len(component.counts), unit.shape[1]).index_add(0, words, unit)
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


def _knobs(point: _AtTau) -> dict[str, float]:
    return {"temperature": point.component.tau, "lambda": point.lam, "valid_ppl": point.ppl}
