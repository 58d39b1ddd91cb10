"""Several LMs mixed, with and without neighbours: the record of an Ensemble row.

    as they are    P = Σ λ_i p_i + λ p_kNN
    calibrated     P = Σ λ_i softmax(logits_i / (f·T_i)) + λ p_kNN + u · unigrams

T_i is the temperature at which LM i is best alone, and f one factor for all, since what an LM is
mixed with changes how peaky it should be: other LMs smooth it, neighbours sharpen it. f is the best
of a few on validation text, 1 among them, all weights fitted together at each; so is the τ of
neighbours, beside the LMs without them. Reported on test text."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from knnlm.errors import KnnlmError
from knnlm.evaluation.calibration import TemperedLM, unigram_logprobs
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_weights, mix_several, oracle
from knnlm_paper.numbers import Base, Logs, Sums, base_numbers, base_of, fitted_mixture
from knnlm_paper.rows import Arm, Ensemble
from knnlm_paper.workshop import Workshop

FACTORS = (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)


class Splits(NamedTuple):
    """log p of the validation and of the test text's tokens under one predictor."""

    valid: Logs
    test: Logs


class EnsembleBench:
    """Measures ensembles. `base` gives an LM's own log p; `votes` those of an arm's neighbours for
    both splits, at the τ that mixes best with given log p. What was computed of an LM is kept."""

    def __init__(
        self,
        workshop: Workshop,
        base: Callable[[str, int | None], Base],
        votes: Callable[[Arm, Logs], tuple[Logs, Logs]],
    ) -> None:
        self.workshop, self.base, self.votes = workshop, base, votes
        self._others: dict[tuple[str, int | None], Base] = {}
        self._tempered: dict[tuple[str, int | None], dict[float, Splits]] = {}

    def measure(self, row: Ensemble) -> dict[str, Any]:
        """Weights and perplexities, and what is known of every other LM."""
        base, m = self.base(*row.lm), self.workshop.plain(*row.lm)
        bases = [base, *(self._other(*lm) for lm in row.others)]
        sums = Sums(m, base)
        lms = [Splits(b.valid, b.test) for b in bases]
        tuned, mixed = fitted_mixture(*_both([*lms, *self._neighbours(row, lms)]))
        sums.add("tuned", mixed)
        calibrated, mixed = self._calibrated(row, bases)
        sums.add("on_calibrated", mixed)
        return {
            "base": base_numbers(base, m),
            "others": [
                self._about(lm, base, other)
                for lm, other in zip(row.others, bases[1:], strict=True)
            ],
            "tuned": tuned,
            "on_calibrated": calibrated,
            "documents": sums.found,
        }

    def _calibrated(self, row: Ensemble, bases: Sequence[Base]) -> tuple[dict[str, Any], Logs]:
        """The record of the calibrated mixture, and its log p of the test text."""
        tempered = [
            self._at_factors(lm, b) for lm, b in zip((row.lm, *row.others), bases, strict=True)
        ]
        m = self.workshop.plain(*row.lm)
        unigrams = Splits(
            *(unigram_logprobs(m.store.targets, q.targets, q.vocab_size) for q in (m.valid, m.test))
        )

        def best(further: Sequence[Splits]) -> float:
            """The factor with the lowest validation perplexity."""
            found = {}
            for factor in FACTORS:
                valid = [p.valid for p in (*(of[factor] for of in tempered), *further, unigrams)]
                found[factor] = perplexity(mix_several(valid, fit_weights(valid)))
            return min(found, key=lambda factor: found[factor])

        factor = best([])
        neighbours = self._neighbours(row, [*(of[factor] for of in tempered), unigrams])
        factor = best(neighbours) if neighbours else factor
        record, mixed = fitted_mixture(
            *_both([*(of[factor] for of in tempered), *neighbours, unigrams])
        )
        *shares, share = record["shares"]
        return {**record, "shares": shares, "unigrams": share, "factor": factor}, mixed

    def _neighbours(self, row: Ensemble, lms: Sequence[Splits]) -> list[Splits]:
        """Of every arm, at the τ that is best beside the LMs."""
        valid = [lm.valid for lm in lms]
        return [
            Splits(*self.votes(arm, mix_several(valid, fit_weights(valid))))
            for arm in row.neighbours
        ]

    def _at_factors(self, lm: tuple[str, int | None], base: Base) -> dict[float, Splits]:
        """An LM at each multiple of its own best temperature."""
        if lm not in self._tempered:
            model, queries = self.workshop.lms.model(*lm).model, self.workshop.queries(*lm)
            temperature = base.calibration.temperature
            self._tempered[lm] = {
                factor: Splits(
                    *(
                        TemperedLM(model, q.key("ffn"), q.targets).logprobs(factor * temperature)
                        for q in queries
                    )
                )
                for factor in FACTORS
            }
        return self._tempered[lm]

    def _other(self, lm: str, step: int | None) -> Base:
        """Another LM of the same tokenizer: its store is not needed, only the tokens of the
        text."""
        if (lm, step) not in self._others:
            main = self.workshop.plain("main", None)
            for mine, theirs in zip(
                (main.valid, main.test), self.workshop.queries(lm, step), strict=True
            ):
                if not np.array_equal(mine.targets, theirs.targets):
                    raise KnnlmError(
                        f"{lm} reads the text as other tokens than main: only LMs of one tokenizer "
                        "mix"
                    )
            self._others[lm, step] = base_of(self.workshop, lm, step, main.store.targets)
        return self._others[lm, step]

    def _about(self, lm: tuple[str, int | None], base: Base, other: Base) -> dict[str, Any]:
        return {
            "name": lm[0],
            "kept": lm[1],
            **self.workshop.lms.about(*lm),
            "ppl": perplexity(other.test),
            "calibrated_ppl": perplexity(other.calibrated_test),
            "calibrated_temperature": other.calibration.temperature,
            "calibrated_share": other.calibration.share,
            "oracle": perplexity(oracle(base.test, other.test)),
            "helping": helping(base.test, other.test),
        }


def _both(parts: Sequence[Splits]) -> tuple[list[Logs], list[Logs]]:
    return [part.valid for part in parts], [part.test for part in parts]
