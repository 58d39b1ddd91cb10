"""A base LM corrected without any retrieval: its own softmax temperature and a share of the unigram
distribution.

    p(w) = (1-u) · softmax(W_sm·h_sm / T)[w] + u · (count of w + 1)/(rows + V)

Two numbers, T = `temperature` and u = `share`, tuned on validation text. What this gains, retrieval
cannot claim. Knows nothing of neighbours."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from knnlm.datastore.table import Column
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.hidden_states.output_head import model_logits

_ROWS = 1024
_WIDEST = math.log(8.0)


class Calibration(NamedTuple):
    """What tuning found."""

    temperature: float
    share: float
    valid_ppl: float


@torch.inference_mode()
def tempered_logprobs(
    model: Any, ffn: NDArray[Any] | Column, targets: NDArray[np.integer], temperature: float
) -> NDArray[np.float64]:
    """log softmax(logits/T)[target] for states (N, D) that enter the output embedding, some rows at
    a time."""
    weight = next(model.parameters())
    found = np.empty(len(targets), np.float64)
    for start in range(0, len(targets), _ROWS):
        block = slice(start, start + _ROWS)
        rows = ffn.read(start, start + _ROWS) if isinstance(ffn, Column) else ffn[block]
        states = torch.from_numpy(np.asarray(rows, np.float32)).to(weight.device, weight.dtype)
        logits = model_logits(model, states).float() / temperature
        wanted = torch.from_numpy(targets[block].astype(np.int64)).to(weight.device)
        found[block] = (
            (logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(1)).double().cpu().numpy()
        )
    return found


def unigram_logprobs(
    stored: NDArray[np.integer], targets: NDArray[np.integer], vocab_size: int
) -> NDArray[np.float64]:
    """log of each target's share of the stored tokens, one added to every count."""
    counts = np.bincount(stored, minlength=vocab_size) + 1.0
    found: NDArray[np.float64] = np.log(counts / counts.sum())[targets]
    return found


def calibrated_logprobs(
    model: Any,
    ffn: NDArray[Any],
    targets: NDArray[np.integer],
    stored: NDArray[np.integer],
    vocab_size: int,
    at: Calibration,
) -> NDArray[np.float64]:
    """log p of every target under the calibrated LM."""
    unigram = unigram_logprobs(stored, targets, vocab_size)
    return mix(tempered_logprobs(model, ffn, targets, at.temperature), unigram, at.share)


def calibrate(
    model: Any,
    ffn: NDArray[Any],
    targets: NDArray[np.integer],
    stored: NDArray[np.integer],
    vocab_size: int,
) -> Calibration:
    """The T and u of the lowest perplexity on a validation text; u is fitted exactly at each T."""
    unigram = unigram_logprobs(stored, targets, vocab_size)

    def at(log_temperature: float) -> Calibration:
        temperature = math.exp(log_temperature)
        lm = tempered_logprobs(model, ffn, targets, temperature)
        share = fit_lambda(lm, unigram)
        return Calibration(temperature, share, perplexity(mix(lm, unigram, share)))

    best = minimize_scalar(
        lambda x: at(x).valid_ppl,
        bounds=(-_WIDEST, _WIDEST),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return at(float(best.x))
