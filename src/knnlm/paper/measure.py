"""A row → its record: what came out, as plain numbers that tables, figures and findings are made of.

Everything is tuned on validation text and reported on test text. What is learned instead of retrieved is measured in
measure_learned.py.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.components.knn import TargetVotes
from knnlm.evaluation import TauPoint, tau_sweep
from knnlm.metrics import helping, perplexity
from knnlm.mixture import fit_lambda, mix, oracle
from knnlm.paper.apprentice import Apprentice
from knnlm.paper.measure_learned import LearnedBench
from knnlm.paper.numbers import Base, Logs, Sums, base_numbers, base_of, or_none
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Arm, Counts, Evaluate, Learned, Row, Temperatures, Words
from knnlm.paper.word_types import word_types
from knnlm.paper.workshop import Workshop

GRID = tuple(round(0.1 * i, 1) for i in range(1, 31))
"""The paper's temperatures."""


class Bench:
    """Measures rows in a workshop; what rows of the same LM share is kept."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self._bases: dict[tuple[str, int | None], Base] = {}
        self._shared: dict[tuple[str, int | None], float] = {}
        self._teaching: dict[tuple[str, int | None], float] = {}
        self.learned = LearnedBench(Apprentice(workshop, self._teacher_tau), self.base, self._best_votes)

    def measure(self, row: Row) -> dict[str, Any]:
        """The record of any row."""
        if isinstance(row, Evaluate):
            return self._evaluate(row.arm)
        if isinstance(row, Temperatures):
            return self._temperatures(row.arm)
        if isinstance(row, Counts):
            return self._counts(row)
        if isinstance(row, Words):
            return self._words(row)
        about = self.workshop.about(*row.lm)
        return {"lm": about, **(self.learned.alone(row) if isinstance(row, Learned) else self.learned.combined(row))}

    def base(self, lm: str, step: int | None) -> Base:
        """The LM alone."""
        if (lm, step) not in self._bases:
            self._bases[lm, step] = base_of(self.workshop, lm, step)
        return self._bases[lm, step]

    def shared_tau(self, lm: str, step: int | None) -> float:
        """The best τ of the paper's arm, for every arm of that LM. The paper's τ = 1 happened to be near it (section
        5.2), so this is what its comparisons at one τ amount to where scores have another scale."""
        if (lm, step) not in self._shared:
            votes = self.workshop.votes(replace(paper_arm(self.workshop.scale, lm), step=step), "valid")
            self._shared[lm, step] = _own_tau(self.base(lm, step).valid, votes)
        return self._shared[lm, step]

    def _best_votes(self, arm: Arm, lm: Logs) -> tuple[Logs, Logs]:
        """log p_kNN of both splits' targets at the τ that mixes best with an LM's log p of the validation text."""
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        tau = _own_tau(lm, valid)
        return valid.logprobs(tau), test.logprobs(tau)

    def _teacher_tau(self, lm: str, step: int | None) -> float:
        """The own τ of exact search on att, for neighbours that teach."""
        if (lm, step) not in self._teaching:
            arm = replace(exactly(paper_arm(self.workshop.scale, lm)), step=step)
            self._teaching[lm, step] = _own_tau(self.base(lm, step).valid, self.workshop.votes(arm, "valid"))
        return self._teaching[lm, step]

    def _evaluate(self, arm: Arm) -> dict[str, Any]:
        m, base = self.workshop.material(arm), self.base(arm.lm, arm.step)
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        at_one = _at(base.valid, valid, 1.0)
        points = {
            "tau_1": at_one, "shared": _at(base.valid, valid, self.shared_tau(arm.lm, arm.step)),
            "tuned": _best(base.valid, valid, at_one),
        }  # fmt: skip
        sums = Sums(m, base)
        record: dict[str, Any] = {
            "rows": m.store.rows,
            "lm": self.workshop.about(arm.lm, arm.step),
            "base": base_numbers(base, m),
            "coverage": test.coverage(),
            "recall": self.workshop.recall(arm),
            "documents": sums.found,
        }
        for name, point in points.items():
            knn_valid, knn = valid.logprobs(point.temperature), test.logprobs(point.temperature)
            record[name] = _numbers(base, knn_valid, knn, point, m.test.words)
            record["documents"][name] = sums.of(mix(base.test, knn, point.lam))
            own = record[name]["lambda_of_test"]
            record["documents"][f"{name}_lambda_of_test"] = sums.of(mix(base.test, knn, own))
        over = _best(base.calibrated_valid, valid, _at(base.calibrated_valid, valid, 1.0))
        mixed = mix(base.calibrated_test, test.logprobs(over.temperature), over.lam)
        record["on_calibrated"] = {**_knobs(over), "ppl": perplexity(mixed)}
        record["documents"]["on_calibrated"] = sums.of(mixed)
        return record

    def _temperatures(self, arm: Arm) -> dict[str, Any]:
        base = self.base(arm.lm, arm.step)
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        points = [*tau_sweep(base.valid, valid, GRID), *tau_sweep(base.valid, valid)]
        return {
            "base": base_numbers(base, self.workshop.material(arm)),
            "points": [_point(base, test.logprobs(p.temperature), p) for p in sorted(set(points))],
        }

    def _counts(self, row: Counts) -> dict[str, Any]:
        base = self.base(row.arm.lm, row.arm.step)
        valid, test = self.workshop.votes(row.arm, "valid"), self.workshop.votes(row.arm, "test")
        points = []
        for k in row.ks:
            head_valid, head_test = valid.head(k), test.head(k)
            at_one = _at(base.valid, head_valid, 1.0)
            best = _best(base.valid, head_valid, at_one)
            points.append({
                "k": k, "coverage": head_test.coverage(),
                "tau_1": _point(base, head_test.logprobs(1.0), at_one),
                "tuned": _point(base, head_test.logprobs(best.temperature), best),
            })  # fmt: skip
        return {"base": base_numbers(base, self.workshop.material(row.arm)), "points": points}

    def _words(self, row: Words) -> dict[str, Any]:
        base = self.base(row.exact.lm, row.exact.step)
        m = self.workshop.material(row.exact)
        helped = {}
        for name, arm in (("exact", row.exact), ("approximate", row.approximate)):
            valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
            best = min(tau_sweep(base.valid, valid), key=lambda p: p.ppl)
            helped[name] = test.logprobs(best.temperature) > base.test
        tokenizer = self.workshop.model(row.exact.lm, row.exact.step).tokenizer
        kinds = word_types(m.test, m.store, tokenizer, helped["exact"], helped["approximate"], row.least)
        return {"words": [kind._asdict() for kind in kinds]}


def _at(lm: Logs, votes: TargetVotes, tau: float) -> TauPoint:
    """One τ with its λ."""
    (point,) = tau_sweep(lm, votes, [tau])
    return point


def _own_tau(lm: Logs, votes: TargetVotes) -> float:
    """The best τ of some votes beside an LM."""
    return _best(lm, votes, _at(lm, votes, 1.0)).temperature


def _best(lm: Logs, votes: TargetVotes, least: TauPoint) -> TauPoint:
    """The best τ with its λ; no worse than `least`."""
    return min([*tau_sweep(lm, votes), least], key=lambda p: p.ppl)


def _numbers(base: Base, knn_valid: Logs, knn: Logs, point: TauPoint, words: int) -> dict[str, Any]:
    """Everything about one arm at one τ."""
    mixed = mix(base.test, knn, point.lam)
    own = fit_lambda(base.test, knn)
    return {
        **_point(base, knn, point),
        "word_ppl": perplexity(mixed, words),
        "component_ppl": or_none(perplexity(knn)),
        "oracle": perplexity(oracle(base.test, knn)),
        "valid_oracle": perplexity(oracle(base.valid, knn_valid)),
        "helping": helping(base.test, knn),
        "helped": np.packbits(knn > base.test).tobytes().hex(),
        "lambda_of_test": own,
        "ppl_of_test_lambda": perplexity(mix(base.test, knn, own)),
    }


def _point(base: Base, knn: Logs, point: TauPoint) -> dict[str, float]:
    """τ, its λ, and both splits' perplexities."""
    return {**_knobs(point), "ppl": perplexity(mix(base.test, knn, point.lam))}


def _knobs(point: TauPoint) -> dict[str, float]:
    """τ and λ, and what they gave on validation text."""
    return {
        "temperature": point.temperature, "units": point.units, "lambda": point.lam, "valid_ppl": point.ppl
    }  # fmt: skip
