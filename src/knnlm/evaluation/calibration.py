"""The calibrated LM: a base LM corrected without any retrieval. What it gains, retrieval cannot
claim.

    p(v) = (1-u) · softmax(W_sm·h_sm / T)[v] + u · (count of v + 1)/(N + V)

Two numbers, the softmax temperature T and the unigram share u, are tuned on a validation text.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import Logs, TargetScores
from knnlm.datastore import Column
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.tuning import best_temperature
from knnlm.hidden_states import model_logits

_ROWS = 1024
_PRECISION = 1.001


class Calibration(NamedTuple):
    """The tuned T and u, and the validation perplexity that they give."""

    temperature: float
    share: float
    valid_ppl: float


class TemperedLM(TargetScores):
    """log softmax(logits/T)[target] of a text at any T.

    Args:
        model: The base LM.
        ffn: The hidden states (N, D) that enter its output embedding.
        targets: The tokens that they predict.
    """

    unit = 1.0

    def __init__(
        self, model: Any, ffn: NDArray[Any] | Column, targets: NDArray[np.integer]
    ) -> None:
        self.model, self.ffn, self.targets = model, ffn, targets

    @torch.inference_mode()
    def logprobs(self, tau: float) -> Logs:
        """log p of every target at T = `tau`, some rows at a time."""
        weight = next(self.model.parameters())
        logs = np.empty(len(self.targets), np.float64)
        for start in range(0, len(logs), _ROWS):
            block = slice(start, start + _ROWS)
            rows = self.ffn
            rows = rows.read(start, start + _ROWS) if isinstance(rows, Column) else rows[block]
            states = torch.from_numpy(np.asarray(rows, np.float32)).to(weight.device, weight.dtype)
            logits = model_logits(self.model, states).float() / tau
            targets = torch.from_numpy(self.targets[block].astype(np.int64)).to(weight.device)
            own = logits.gather(1, targets[:, None])[:, 0]
            logs[block] = (own - logits.logsumexp(1)).double().cpu().numpy()
        return logs


def unigram_logprobs(
    stored: NDArray[np.integer], targets: NDArray[np.integer], vocab_size: int
) -> Logs:
    """log of each target's share of the stored tokens, one added to every count."""
    counts = np.bincount(stored, minlength=vocab_size) + 1.0
    logs: Logs = np.log(counts / counts.sum())[targets]
    return logs


def calibrate(scores: TemperedLM, unigrams: Logs) -> Calibration:
    """The T and u of the lowest perplexity on a validation text; u is fitted exactly at each T."""
    best = best_temperature(unigrams, scores, precision=_PRECISION)
    return Calibration(best.tau, 1 - best.lam, best.ppl)


def calibrated_logprobs(scores: TemperedLM, unigrams: Logs, calibration: Calibration) -> Logs:
    """log p of every target under the calibrated LM."""
    return mix(scores.logprobs(calibration.temperature), unigrams, calibration.share)
