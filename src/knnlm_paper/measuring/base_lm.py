"""The base LM alone, and calibrated: log p of both texts, and its numbers."""

from typing import TYPE_CHECKING, NamedTuple

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
from knnlm.experiments.workspace import SearchData
from knnlm_paper.measurement import BaseNumbers

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

Logs = NDArray[np.float64]


class BaseLogs(NamedTuple):
    """log p of both texts' tokens under an LM and under the same LM calibrated."""

    valid: Logs
    test: Logs
    calibrated_valid: Logs
    calibrated_test: Logs
    calibration: Calibration

    def over(self, calibrated: bool) -> tuple[Logs, Logs]:
        """Of the validation and of the test text, under the calibrated LM or the LM as it is."""
        if calibrated:
            return self.calibrated_valid, self.calibrated_test
        return self.valid, self.test


def base_logs(
    workspace: "PaperWorkspace", lm: str, step: int | None, stored: NDArray[np.integer]
) -> BaseLogs:
    """The LM alone, and calibrated on validation text.

    Args:
        workspace: Where its states are.
        lm: The name of the LM.
        step: The update at which it was kept.
        stored: The tokens of the training text, whose frequencies are mixed in.
    """
    model, both = workspace.lms.model(lm, step).model, workspace.queries(lm, step)
    scores = [TemperedLM(model, q.key("ffn"), q.targets) for q in both]
    unigrams = [unigram_logprobs(stored, q.targets, both[0].vocab_size) for q in both]
    valid = calibrate(scores[0], scores[0].logprobs(1.0), unigrams[0])
    test = calibrated_logprobs(scores[1], unigrams[1], valid.calibration)
    lms = [q.lm_logprob.astype(np.float64) for q in both]
    return BaseLogs(lms[0], lms[1], valid.logprobs, test, valid.calibration)


def base_numbers(base: BaseLogs, data: SearchData) -> BaseNumbers:
    """The numbers of the LM alone."""
    return BaseNumbers(
        tokens=len(base.test),
        words=data.test.words,
        valid_tokens=len(base.valid),
        valid_ppl=perplexity(base.valid),
        ppl=perplexity(base.test),
        word_ppl=perplexity(base.test, data.test.words),
        calibrated_valid_ppl=base.calibration.valid_ppl,
        calibrated_ppl=perplexity(base.calibrated_test),
        calibrated_temperature=base.calibration.temperature,
        calibrated_share=base.calibration.share,
    )
