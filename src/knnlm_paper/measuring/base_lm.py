"""What records are made of: the numbers of a base LM, of a mixture with it, and sums for each
document.

For each document of the test text a record has the sum of log p under the base LM, the calibrated
LM and every mixture, so that any two rows can be compared by a paired bootstrap without going back
to the tokens. Knows nothing of rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.evaluation.calibration import (
    Calibration,
    TemperedLM,
    calibrate,
    calibrated_logprobs,
    unigram_logprobs,
)
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_weights, mix_several
from knnlm.experiments.workspace import SearchData
from knnlm_paper.workshop import Workshop

Logs = NDArray[np.float64]


class Base(NamedTuple):
    """log p of both splits' targets under an LM and under the same LM calibrated."""

    valid: Logs
    test: Logs
    calibrated_valid: Logs
    calibrated_test: Logs
    calibration: Calibration


def base_of(workshop: Workshop, lm: str, step: int | None, stored: NDArray[np.integer]) -> Base:
    """The LM alone, and calibrated on validation text; `stored` are the tokens of the training
    text."""
    model, both = workshop.lms.model(lm, step).model, workshop.queries(lm, step)
    scores = [TemperedLM(model, q.key("ffn"), q.targets) for q in both]
    unigrams = [unigram_logprobs(stored, q.targets, both[0].vocab_size) for q in both]
    valid = calibrate(scores[0], scores[0].logprobs(1.0), unigrams[0])
    test = calibrated_logprobs(scores[1], unigrams[1], valid.calibration)
    lms = [q.lm_logprob.astype(np.float64) for q in both]
    return Base(lms[0], lms[1], valid.logprobs, test, valid.calibration)


def base_numbers(base: Base, m: SearchData) -> dict[str, Any]:
    """Of the LM alone."""
    return {
        "tokens": len(base.test),
        "words": m.test.words,
        "valid_tokens": len(base.valid),
        "valid_ppl": perplexity(base.valid),
        "ppl": perplexity(base.test),
        "word_ppl": perplexity(base.test, m.test.words),
        "calibrated_valid_ppl": base.calibration.valid_ppl,
        "calibrated_ppl": perplexity(base.calibrated_test),
        "calibrated_temperature": base.calibration.temperature,
        "calibrated_share": base.calibration.share,
    }


class Sums:
    """Sums over the documents of the test text."""

    def __init__(self, m: SearchData, base: Base) -> None:
        self.documents = m.test.table.columns["document"].all()
        self.found: dict[str, list[float]] = {
            "tokens": np.bincount(self.documents).tolist(),
            "base": self.of(base.test),
            "calibrated": self.of(base.calibrated_test),
        }

    def add(self, name: str, logprobs: Logs) -> None:
        """Those of a predictor; none where it holds a token impossible, as JSON has no infinity."""
        if np.isfinite(logprobs).all():
            self.found[name] = self.of(logprobs)

    def of(self, logprobs: Logs) -> list[float]:
        """Σ log p of each document."""
        return [round(float(total), 6) for total in np.bincount(self.documents, weights=logprobs)]


def fitted_mixture(valid: Sequence[Logs], test: Sequence[Logs]) -> tuple[dict[str, Any], Logs]:
    """Predictors mixed, all weights fitted together on validation text: the record, and log p of
    the test text."""
    shares = fit_weights(valid)
    mixed = mix_several(test, shares)
    record = {
        "shares": list(shares),
        "valid_ppl": perplexity(mix_several(valid, shares)),
        "ppl": or_none(perplexity(mixed)),
    }
    return record, mixed


def or_none(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None
