"""A row → its record: what came out, as plain numbers that tables, figures and findings are made
of.

Everything is tuned on validation text and reported on test text. What is learned instead of
retrieved is measured in measure_learned.py, all rows voting in measure_unmasked.py."""

from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.components.knn import TargetVotes
from knnlm.errors import KnnlmError
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix, oracle
from knnlm.evaluation.tuning import TemperaturePoint, temperature_sweep
from knnlm.experiments.workspace import SearchData
from knnlm.hidden_states.output_head import output_embedding
from knnlm_paper import listed, taus
from knnlm_paper.apprentice import Apprentice
from knnlm_paper.ensembles import EnsembleBench
from knnlm_paper.experiments.baselines import paper_arm
from knnlm_paper.located import located
from knnlm_paper.measure_learned import LearnedBench
from knnlm_paper.measure_unmasked import unmasked
from knnlm_paper.numbers import Base, Logs, Sums, base_numbers, base_of, or_none
from knnlm_paper.rows import (
    Arm,
    Counts,
    Ensemble,
    Evaluate,
    Learned,
    Listed,
    Location,
    Reach,
    Row,
    Temperatures,
    Unmasked,
    Words,
)
from knnlm_paper.stolen import reachable_words
from knnlm_paper.teaching import teacher_point
from knnlm_paper.word_types import word_types
from knnlm_paper.workshop import Workshop, search_of

GRID = tuple(round(0.1 * i, 1) for i in range(1, 31))
"""The paper's temperatures."""


class Bench:
    """Measures rows in a workshop; what rows of the same LM share is kept."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self._bases: dict[tuple[str, int | None], Base] = {}
        self._shared: dict[tuple[str, int | None], float] = {}
        self._teaching: dict[tuple[str, int | None], float] = {}
        self.ensembles = EnsembleBench(workshop, self.base, self._best_votes)
        self.learned = LearnedBench(
            Apprentice(workshop, self._teacher_tau), self.base, self._best_votes
        )

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
        if isinstance(row, Listed):
            return self._listed(row)
        if isinstance(row, Location):
            return self._location(row.arm)
        if isinstance(row, Reach):
            return self._reach(row)
        if isinstance(row, Unmasked):
            m, base = self.workshop.plain(*row.lm), self.base(*row.lm)
            return {
                "lm": self.workshop.lms.about(*row.lm),
                **unmasked(row, m, base),
            }
        if isinstance(row, Ensemble):
            return {"lm": self.workshop.lms.about(*row.lm), **self.ensembles.measure(row)}
        about = self.workshop.lms.about(*row.lm)
        return {
            "lm": about,
            **(self.learned.alone(row) if isinstance(row, Learned) else self.learned.combined(row)),
        }

    def base(self, lm: str, step: int | None) -> Base:
        """The LM alone."""
        if (lm, step) not in self._bases:
            self._bases[lm, step] = base_of(
                self.workshop, lm, step, self.workshop.plain(lm, step).store.targets
            )
        return self._bases[lm, step]

    def shared_tau(self, lm: str, step: int | None) -> float:
        """The best τ of the paper's arm, for every arm of that LM. The paper's τ = 1 happened to be
        near it (section 5.2), so this is what its comparisons at one τ amount to where scores have
        another scale."""
        if (lm, step) not in self._shared:
            votes = self.workshop.votes(
                replace(paper_arm(self.workshop.scale, lm), step=step), "valid"
            )
            self._shared[lm, step] = taus.best(self.base(lm, step).valid, votes).tau
        return self._shared[lm, step]

    def _best_votes(self, arm: Arm, lm: Logs) -> tuple[Logs, Logs]:
        """log p_kNN of both splits' targets at the τ that mixes best with an LM's log p of the
        validation text."""
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        tau = taus.best(lm, valid).tau
        return valid.logprobs(tau), test.logprobs(tau)

    def _teacher_tau(self, lm: str, step: int | None) -> float:
        if (lm, step) not in self._teaching:
            self._teaching[lm, step] = teacher_point(self.workshop, lm, step).tau
        return self._teaching[lm, step]

    def _evaluate(self, arm: Arm) -> dict[str, Any]:
        m, base = self.workshop.data(search_of(arm)), self.base(arm.lm, arm.step)
        votes = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        shared = taus.at(base.valid, votes[0], self.shared_tau(arm.lm, arm.step))
        return {
            "rows": m.store.count,
            "recall": self.workshop.recall(search_of(arm), arm.k),
            **self._voted((arm.lm, arm.step), m, *votes, {"shared": shared}),
        }

    def _listed(self, row: Listed) -> dict[str, Any]:
        m, model = self.workshop.plain(*row.lm), self.workshop.lms.model(*row.lm).model
        votes = [self._list_votes(row, m, model, split) for split in ("valid", "test")]
        return self._voted(row.lm, m, votes[0], votes[1], {})

    def _list_votes(self, row: Listed, m: SearchData, model: Any, split: str) -> TargetVotes:
        """The votes of a list's words, each for itself, for the true tokens."""
        queries = m.queries(split)
        if row.score == "logits":
            scores = listed.logits(model, queries.key("ffn").all())
        else:
            assert row.retrieved is not None
            w_sm = output_embedding(model).weight.detach().float().cpu().numpy()
            scores = listed.distances(w_sm, queries.key(row.retrieved.state).all())
        if row.retrieved is None:
            found = listed.likeliest(scores, queries.count, row.k)
        else:
            near = self.workshop.neighbors_of(row.retrieved, split)
            found = listed.relisted(near, m.store.targets, scores, row.duplicates)
        return TargetVotes(found, np.arange(m.store.vocab_size, dtype=np.int32), queries.targets)

    def _voted(
        self,
        lm: tuple[str, int | None],
        m: SearchData,
        valid: TargetVotes,
        test: TargetVotes,
        further: dict[str, TemperaturePoint],
    ) -> dict[str, Any]:
        """What votes do for an LM at τ = 1, at `further` points, and at their own τ; and for it
        calibrated."""
        base = self.base(*lm)
        at_one = taus.at(base.valid, valid, 1.0)
        points = {"tau_1": at_one, **further, "tuned": taus.best(base.valid, valid, at_one)}
        sums = Sums(m, base)
        record: dict[str, Any] = {
            "lm": self.workshop.lms.about(*lm),
            "base": base_numbers(base, m),
            "coverage": test.coverage,
            "documents": sums.found,
        }
        for name, point in points.items():
            knn_valid, knn = valid.logprobs(point.tau), test.logprobs(point.tau)
            record[name] = _numbers(base, knn_valid, knn, point, m.test.words)
            sums.add(name, mix(base.test, knn, point.lam))
            sums.add(f"{name}_lambda_of_test", mix(base.test, knn, record[name]["lambda_of_test"]))
        over = taus.best(base.calibrated_valid, valid)
        knn = test.logprobs(over.tau)
        record["on_calibrated"] = taus.outcome(base.calibrated_test, knn, over)
        sums.add("on_calibrated", mix(base.calibrated_test, knn, over.lam))
        return record

    def _temperatures(self, arm: Arm) -> dict[str, Any]:
        base = self.base(arm.lm, arm.step)
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        points = [
            *temperature_sweep(base.valid, valid, GRID),
            *temperature_sweep(base.valid, valid),
        ]
        return {
            "base": base_numbers(base, self.workshop.data(search_of(arm))),
            "points": [
                taus.outcome(base.test, test.logprobs(p.tau), p) for p in sorted(set(points))
            ],
        }

    def _counts(self, row: Counts) -> dict[str, Any]:
        base = self.base(row.arm.lm, row.arm.step)
        valid, test = self.workshop.votes(row.arm, "valid"), self.workshop.votes(row.arm, "test")
        points = []
        for k in row.ks:
            head_valid, head_test = valid.head(k), test.head(k)
            at_one = taus.at(base.valid, head_valid, 1.0)
            best = taus.best(base.valid, head_valid, at_one)
            points.append(
                {
                    "k": k,
                    "coverage": head_test.coverage,
                    "tau_1": taus.outcome(base.test, head_test.logprobs(1.0), at_one),
                    "tuned": taus.outcome(base.test, head_test.logprobs(best.tau), best),
                }
            )
        return {
            "base": base_numbers(base, self.workshop.data(search_of(row.arm))),
            "points": points,
        }

    def _location(self, arm: Arm) -> dict[str, Any]:
        base, m = self.base(arm.lm, arm.step), self.workshop.data(search_of(arm))
        valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        point = taus.best(base.valid, valid)
        gained = mix(base.test, test.logprobs(point.tau), point.lam) - base.test
        whole = self.workshop.entries(arm.lm, arm.step, "test")
        return {"lm": self.workshop.lms.about(arm.lm, arm.step), **located(m.test, whole, gained)}

    def _reach(self, row: Reach) -> dict[str, Any]:
        model = self.workshop.lms.model(*row.lm)
        head = output_embedding(model.model)
        if getattr(head, "bias", None) is not None:
            raise KnnlmError(
                f"the output embedding of {row.of} has a bias: which words can be chosen is not "
                "known then"
            )
        found = reachable_words(head.weight.detach().cpu().numpy())
        missing = np.flatnonzero(~found.words)
        return {
            "lm": self.workshop.lms.about(*row.lm),
            "words": len(found.words),
            "unreachable": len(missing),
            "programmes": found.programmes,
            "which": model.tokenizer.convert_ids_to_tokens(missing[:100].tolist()),
        }

    def _words(self, row: Words) -> dict[str, Any]:
        base = self.base(row.exact.lm, row.exact.step)
        m = self.workshop.data(search_of(row.exact))
        helped = {}
        for name, arm in (("exact", row.exact), ("approximate", row.approximate)):
            valid, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
            helped[name] = test.logprobs(taus.best(base.valid, valid).tau) > base.test
        tokenizer = self.workshop.lms.model(row.exact.lm, row.exact.step).tokenizer
        kinds = word_types(
            m.test, m.store, tokenizer, helped["exact"], helped["approximate"], row.least
        )
        return {"words": [kind._asdict() for kind in kinds]}


def _numbers(
    base: Base, knn_valid: Logs, knn: Logs, point: TemperaturePoint, words: int
) -> dict[str, Any]:
    """Everything about one arm at one τ."""
    mixed = mix(base.test, knn, point.lam)
    own = fit_lambda(base.test, knn)
    return {
        **taus.outcome(base.test, knn, point),
        "word_ppl": or_none(perplexity(mixed, words)),
        "component_ppl": or_none(perplexity(knn)),
        "oracle": perplexity(oracle(base.test, knn)),
        "valid_oracle": perplexity(oracle(base.valid, knn_valid)),
        "helping": helping(base.test, knn),
        "helped": np.packbits(knn > base.test).tobytes().hex(),
        "lambda_of_test": own,
        "ppl_of_test_lambda": perplexity(mix(base.test, knn, own)),
    }
