"""A row → its record: what came out, as plain numbers that tables, figures and findings are made of.

Everything is tuned on validation text and reported on test text. For each document of the test text the record has the
sum of log p under the base LM, the calibrated LM and every mixture, so that any two rows can be compared by a paired
bootstrap without going back to the tokens.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components.knn import TargetVotes
from knnlm.evaluation import TauPoint, tau_sweep
from knnlm.learning.learn import learn, states_of
from knnlm.learning.substitutes import Substitute
from knnlm.metrics import helping, perplexity
from knnlm.mixture import fit_lambda, mix, oracle
from knnlm.paper.calibrated import Calibration, calibrate, calibrated_logprobs
from knnlm.paper.recipes.baselines import paper_arm
from knnlm.paper.rows import Arm, Counts, Evaluate, Learned, Row, Temperatures, Words
from knnlm.paper.word_types import word_types
from knnlm.paper.workshop import Material, Workshop
from knnlm.states.store import Store
from knnlm.taps.head import output_embedding

Logs = NDArray[np.float64]
GRID = tuple(round(0.1 * i, 1) for i in range(1, 31))
"""The paper's temperatures."""


class Base(NamedTuple):
    """log p of both splits' targets under an LM and under the same LM calibrated."""

    valid: Logs
    test: Logs
    calibrated_valid: Logs
    calibrated_test: Logs
    calibration: Calibration


class Bench:
    """Measures rows in a workshop; what rows of the same LM share is kept."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self._bases: dict[tuple[str, int | None], Base] = {}
        self._shared: dict[tuple[str, int | None], float] = {}

    def measure(self, row: Row) -> dict[str, Any]:
        """The record of any row."""
        if isinstance(row, Evaluate):
            return self._evaluate(row.arm)
        if isinstance(row, Temperatures):
            return self._temperatures(row.arm)
        if isinstance(row, Counts):
            return self._counts(row)
        return self._words(row) if isinstance(row, Words) else self._learned(row)

    def base(self, lm: str, step: int | None) -> Base:
        """The LM alone."""
        if (lm, step) not in self._bases:
            m, model = self.workshop.plain(lm, step), self.workshop.model(lm, step).model
            stored, vocab = m.store.targets, m.store.vocab_size
            found = calibrate(model, _ffn(m.valid), m.valid.targets, stored, vocab)
            calibrated = [
                calibrated_logprobs(model, _ffn(q), q.targets, stored, vocab, found) for q in (m.valid, m.test)
            ]
            lms = [q.lm_logprob.astype(np.float64) for q in (m.valid, m.test)]
            self._bases[lm, step] = Base(lms[0], lms[1], calibrated[0], calibrated[1], found)
        return self._bases[lm, step]

    def shared_tau(self, lm: str, step: int | None) -> float:
        """The best τ of the paper's arm, for every arm of that LM. The paper's τ = 1 happened to be near it (section
        5.2), so this is what its comparisons at one τ amount to where scores have another scale."""
        if (lm, step) not in self._shared:
            votes = self.workshop.votes(replace(paper_arm(self.workshop.scale, lm), step=step), "valid")
            base = self.base(lm, step)
            self._shared[lm, step] = _best(base.valid, votes, _at(base.valid, votes, 1.0)).temperature
        return self._shared[lm, step]

    def _evaluate(self, arm: Arm) -> dict[str, Any]:
        m, base = self.workshop.material(arm), self.base(arm.lm, arm.step)
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        at_one = _at(base.valid, valid, 1.0)
        points = {
            "tau_1": at_one, "shared": _at(base.valid, valid, self.shared_tau(arm.lm, arm.step)),
            "tuned": _best(base.valid, valid, at_one),
        }  # fmt: skip
        documents = m.test.table.columns["document"].all()
        record: dict[str, Any] = {
            "rows": m.store.rows,
            "lm": self.workshop.about(arm.lm, arm.step),
            "base": _base_numbers(base, m),
            "coverage": test.coverage(),
            "recall": self.workshop.recall(arm),
            "documents": {
                "tokens": np.bincount(documents).tolist(),
                "base": _sums(documents, base.test),
                "calibrated": _sums(documents, base.calibrated_test),
            },
        }
        for name, point in points.items():
            knn_valid, knn = valid.logprobs(point.temperature), test.logprobs(point.temperature)
            record[name] = _numbers(base, knn_valid, knn, point, m.test.words)
            record["documents"][name] = _sums(documents, mix(base.test, knn, point.lam))
            own = record[name]["lambda_of_test"]
            record["documents"][f"{name}_lambda_of_test"] = _sums(documents, mix(base.test, knn, own))
        over = _best(base.calibrated_valid, valid, _at(base.calibrated_valid, valid, 1.0))
        mixed = mix(base.calibrated_test, test.logprobs(over.temperature), over.lam)
        record["on_calibrated"] = {**_knobs(over), "ppl": perplexity(mixed)}
        record["documents"]["on_calibrated"] = _sums(documents, mixed)
        return record

    def _temperatures(self, arm: Arm) -> dict[str, Any]:
        base = self.base(arm.lm, arm.step)
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        points = [*tau_sweep(base.valid, valid, GRID), *tau_sweep(base.valid, valid)]
        return {
            "base": _base_numbers(base, self.workshop.material(arm)),
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
        return {"base": _base_numbers(base, self.workshop.material(row.arm)), "points": points}

    def _learned(self, row: Learned) -> dict[str, Any]:
        base, m = self.base(*row.lm), self.workshop.plain(*row.lm)
        w_sm = output_embedding(self.workshop.model(*row.lm).model).weight
        what = Substitute(keys=(row.state,))
        head = learn(what, w_sm, m.store, m.valid, self.workshop.learned(row))
        valid, test = (head.component.target_logprobs(states_of(q, what.keys), q.targets) for q in (m.valid, m.test))
        lam = fit_lambda(base.valid, valid)
        documents = m.test.table.columns["document"].all()
        mixed = mix(base.test, test, lam)
        return {
            "lm": self.workshop.about(*row.lm),
            "base": _base_numbers(base, m),
            "learned": {
                "steps": head.fitted.steps, "best_step": head.fitted.best_step, "valid_ppl": perplexity(valid),
                "ppl": perplexity(test), "parameters": w_sm.numel(),
            },
            "tuned": {
                "lambda": lam, "valid_ppl": perplexity(mix(base.valid, valid, lam)), "ppl": perplexity(mixed),
                "oracle": perplexity(oracle(base.test, test)), "helping": helping(base.test, test),
            },
            "documents": {
                "tokens": np.bincount(documents).tolist(), "base": _sums(documents, base.test),
                "calibrated": _sums(documents, base.calibrated_test), "tuned": _sums(documents, mixed),
            },
        }  # fmt: skip

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


def _ffn(queries: Store) -> Any:
    return queries.key("ffn").all()


def _at(lm: Logs, votes: TargetVotes, tau: float) -> TauPoint:
    """One τ with its λ."""
    (point,) = tau_sweep(lm, votes, [tau])
    return point


def _best(lm: Logs, votes: TargetVotes, least: TauPoint) -> TauPoint:
    """The best τ with its λ; no worse than `least`."""
    return min([*tau_sweep(lm, votes), least], key=lambda p: p.ppl)


def _base_numbers(base: Base, m: Material) -> dict[str, Any]:
    return {
        "tokens": len(base.test), "words": m.test.words, "valid_tokens": len(base.valid),
        "valid_ppl": perplexity(base.valid), "ppl": perplexity(base.test),
        "word_ppl": perplexity(base.test, m.test.words),
        "calibrated_valid_ppl": base.calibration.valid_ppl, "calibrated_ppl": perplexity(base.calibrated_test),
        "calibrated_temperature": base.calibration.temperature, "calibrated_share": base.calibration.share,
    }  # fmt: skip


def _numbers(base: Base, knn_valid: Logs, knn: Logs, point: TauPoint, words: int) -> dict[str, Any]:
    """Everything about one arm at one τ."""
    mixed = mix(base.test, knn, point.lam)
    own = fit_lambda(base.test, knn)
    return {
        **_point(base, knn, point),
        "word_ppl": perplexity(mixed, words),
        "component_ppl": _or_none(perplexity(knn)),
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


def _sums(documents: NDArray[np.integer], logprobs: Logs) -> list[float]:
    return [round(float(total), 6) for total in np.bincount(documents, weights=logprobs)]


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
