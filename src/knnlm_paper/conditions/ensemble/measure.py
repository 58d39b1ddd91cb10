"""Several LMs mixed, with and without neighbors.

    as they are    P = Σ λ_i p_i + λ p_kNN
    calibrated     P = Σ λ_i softmax(logits_i / (f·T_i)) + λ p_kNN + u · unigrams

T_i is the temperature at which LM i is best alone, and f one factor for all, since the best
temperature of an LM depends on what it is mixed with: other LMs smooth it, neighbors sharpen it. f
is the best of a few on validation text, 1 among them, all weights fitted together at each; so is
the τ of neighbors, beside the LMs without them. Reported on test text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from knnlm.errors import KnnlmError
from knnlm.evaluation.calibration import TemperedLM, unigram_logprobs
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_weights, mix_several, oracle
from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions.ensemble.condition import (
    FACTORS,
    CalibratedWeights,
    Ensemble,
    EnsembleMeasurement,
    OtherLM,
)
from knnlm_paper.measuring.base_lm import BaseLogs, Logs, base_logs, base_numbers
from knnlm_paper.measuring.documents import DocumentSums
from knnlm_paper.measuring.mixtures import FittedMixture, fitted_mixture

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


class Splits(NamedTuple):
    """log p of the validation and of the test text's tokens under one predictor."""

    valid: Logs
    test: Logs


class EnsembleMeasurer:
    """Measures ensembles; what was computed of an LM is kept."""

    def __init__(self, workspace: "PaperWorkspace") -> None:
        self.workspace = workspace
        self._others: dict[tuple[Checkpoint, Checkpoint], BaseLogs] = {}
        self._tempered: dict[Checkpoint, dict[float, Splits]] = {}

    def measure(self, ensemble: Ensemble) -> EnsembleMeasurement:
        """Weights and perplexities, and what is known of every other LM."""
        base, data = self.workspace.base(*ensemble.lm), self.workspace.plain(*ensemble.lm)
        bases = [base, *(self._other(ensemble.lm, lm) for lm in ensemble.others)]
        sums = DocumentSums(data, base)
        lms = [Splits(b.valid, b.test) for b in bases]
        plain = _mixture([*lms, *self._neighbors(ensemble, lms)])
        sums.add("own_tau", plain.test)
        calibrated, mixed = self._calibrated(ensemble, bases)
        sums.add("on_calibrated", mixed)
        return EnsembleMeasurement(
            lm=self.workspace.lms.about(*ensemble.lm),
            base=base_numbers(base, data),
            others=tuple(
                self._about(lm, base, other)
                for lm, other in zip(ensemble.others, bases[1:], strict=True)
            ),
            own_tau=plain.point,
            on_calibrated=calibrated,
            documents=sums.collected(),
        )

    def _calibrated(
        self, ensemble: Ensemble, bases: Sequence[BaseLogs]
    ) -> tuple[CalibratedWeights, Logs]:
        """The calibrated mixture, and its log p of the test text."""
        checkpoints = (ensemble.lm, *ensemble.others)
        tempered = [self._at_factors(lm, b) for lm, b in zip(checkpoints, bases, strict=True)]
        data = self.workspace.plain(*ensemble.lm)
        unigrams = Splits(
            *(
                unigram_logprobs(data.store.targets, q.targets, q.vocab_size)
                for q in (data.valid, data.test)
            )
        )

        def best_factor(further: Sequence[Splits]) -> float:
            """The factor with the lowest validation perplexity."""
            ppls = {}
            for factor in FACTORS:
                valid = [p.valid for p in (*(of[factor] for of in tempered), *further, unigrams)]
                ppls[factor] = perplexity(mix_several(valid, fit_weights(valid)))
            return min(ppls, key=lambda factor: ppls[factor])

        factor = best_factor([])
        neighbors = self._neighbors(ensemble, [*(of[factor] for of in tempered), unigrams])
        factor = best_factor(neighbors) if neighbors else factor
        mixture = _mixture([*(of[factor] for of in tempered), *neighbors, unigrams])
        *shares, share = mixture.point.shares
        point = CalibratedWeights(
            shares=tuple(shares),
            valid_ppl=mixture.point.valid_ppl,
            ppl=mixture.point.ppl,
            unigrams=share,
            factor=factor,
        )
        return point, mixture.test

    def _neighbors(self, ensemble: Ensemble, lms: Sequence[Splits]) -> list[Splits]:
        """Of every retrieval, at the τ that is best beside the LMs."""
        valid = [lm.valid for lm in lms]
        return [
            Splits(*self.workspace.best_votes(r, mix_several(valid, fit_weights(valid))))
            for r in ensemble.neighbors
        ]

    def _at_factors(self, lm: Checkpoint, base: BaseLogs) -> dict[float, Splits]:
        """An LM at each multiple of its own best temperature."""
        if lm not in self._tempered:
            model, queries = self.workspace.lms.model(*lm).model, self.workspace.queries(*lm)
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

    def _other(self, base: Checkpoint, lm: Checkpoint) -> BaseLogs:
        """Another LM of the same tokenizer: its datastore is not needed, only the tokens of the
        text."""
        if (base, lm) not in self._others:
            data = self.workspace.plain(*base)
            theirs = self.workspace.queries(*lm)
            for own, other in zip((data.valid, data.test), theirs, strict=True):
                if not np.array_equal(own.targets, other.targets):
                    raise KnnlmError(
                        f"{lm.name} reads the text as other tokens than {base.name}: only LMs of "
                        "one tokenizer mix"
                    )
            self._others[base, lm] = base_logs(self.workspace, *lm, data.store.targets)
        return self._others[base, lm]

    def _about(self, lm: Checkpoint, base: BaseLogs, other: BaseLogs) -> OtherLM:
        return OtherLM(
            name=lm.name,
            kept=lm.step,
            lm=self.workspace.lms.about(*lm),
            ppl=perplexity(other.test),
            calibrated_ppl=perplexity(other.calibrated_test),
            calibrated_temperature=other.calibration.temperature,
            calibrated_share=other.calibration.share,
            oracle=perplexity(oracle(base.test, other.test)),
            helping=helping(base.test, other.test),
        )


def _mixture(parts: Sequence[Splits]) -> FittedMixture:
    return fitted_mixture([part.valid for part in parts], [part.test for part in parts])
