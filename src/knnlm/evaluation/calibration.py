"""The calibrated LM: the base LM corrected without any retrieval. What it gains, retrieval cannot
claim.

    p(v) = (1-u) · softmax(W_sm·h_sm / T)[v] + u · (count of v + 1)/(N + V)

Two numbers, the softmax temperature T and the unigram share u, are fitted on a validation text;
counts are those of the N stored tokens. log p is concave in u at each T, and concave in β = 1/T at
u = 0, where it is β·logit - A(β) with the convex A(β) = log Σ exp(β·logit). It is not concave in
both, so β is searched on a grid first.

A pass over the logits can cost as much as reading the text. So T and u are fitted on some of the
tokens, in one pass that gives A at 16 multiples of a small β: their exponentials are powers of one.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from knnlm.components import Logs, TargetScores
from knnlm.datastore import Column, evenly_spaced
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.hidden_states import logit_blocks, target_logprobs

_ROWS = 1024
_LOOK = 256
_COARSE = tuple(2.0**e for e in range(-5, 6))
_NODES, _ONE = 16, 8  # multiples of β that are computed, and which of them is the center's
_LOW, _HIGH = 0.4, 1.7  # between these multiples of the center, interpolation is accurate


class Calibration(NamedTuple):
    """The fitted T and u, and the validation perplexity that they give."""

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

    def sample(self, rows: NDArray[np.integer]) -> "TemperedLM":
        """The same for some tokens of the text."""
        some = self.ffn.gather(rows) if isinstance(self.ffn, Column) else self.ffn[rows]
        return TemperedLM(self.model, some, self.targets[rows])

    def logprobs(self, tau: float) -> Logs:
        """log p of every target at T = `tau`."""
        return self.several([tau])[0]

    @torch.inference_mode()
    def several(self, taus: Sequence[float]) -> list[Logs]:
        """The same at several T, in one pass over the logits."""
        logs = np.empty((len(taus), len(self.targets)), np.float64)
        for start in range(0, len(self.targets), _ROWS):
            states, targets = self._block(start)
            block = target_logprobs(self.model, states, targets, taus)
            logs[:, start : start + _ROWS] = block.double().cpu().numpy()
        return list(logs)

    @torch.inference_mode()
    def near(self, center: float) -> "TemperedNear":
        """What gives log p at any T not far from `center` without another pass."""
        own = np.empty(len(self.targets), np.float64)
        sums = np.empty((_NODES, len(self.targets)), np.float64)
        for start in range(0, len(self.targets), _ROWS):
            states, targets = self._block(start)
            for rows, logits in logit_blocks(self.model, states):
                tokens = slice(start + rows.start, start + rows.stop)
                logits = logits - logits.amax(1, keepdim=True)
                own[tokens] = logits.gather(1, targets[rows, None])[:, 0].double().cpu().numpy()
                root = logits.div_(_ONE * center).exp_()
                power = root.clone()
                for node in range(_NODES):
                    sums[node, tokens] = power.sum(1).double().cpu().numpy()
                    power *= root
        return TemperedNear(center, own, np.log(sums))

    def _block(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        weight, block = next(self.model.parameters()), slice(start, start + _ROWS)
        rows = self.ffn
        rows = rows.read(start, start + _ROWS) if isinstance(rows, Column) else rows[block]
        states = torch.from_numpy(np.asarray(rows, np.float32)).to(weight.device, weight.dtype)
        return states, torch.from_numpy(self.targets[block].astype(np.int64)).to(weight.device)


class TemperedNear(NamedTuple):
    """log softmax(logits/T)[target] = β·own - A(β), with A interpolated between nodes.

    Attributes:
        center: The T around which it is accurate.
        own: The target's logit, less the largest one (N,).
        log_sums: A at β = node/(8·center), for nodes from 1 to 16 (16, N).
    """

    center: float
    own: Logs
    log_sums: NDArray[np.float64]

    def logprobs(self, temperature: float) -> Logs:
        """log p of every target, by the polynomial through all nodes."""
        at = _ONE * self.center / temperature  # in units of a node
        weights = np.array([_lagrange(at, node) for node in range(1, _NODES + 1)])
        logs: Logs = at / (_ONE * self.center) * self.own - weights @ self.log_sums
        return logs


def unigram_logprobs(
    stored: NDArray[np.integer], targets: NDArray[np.integer], vocab_size: int
) -> Logs:
    """log of each target's share of the stored tokens, one added to every count."""
    counts = np.bincount(stored, minlength=vocab_size) + 1.0
    logs: Logs = np.log(counts / counts.sum())[targets]
    return logs


class Calibrated(NamedTuple):
    """T and u, and log p of the tokens that they were fitted on."""

    calibration: Calibration
    logprobs: Logs


def calibrate(scores: TemperedLM, base: Logs, unigrams: Logs) -> Calibrated:
    """The T and u of the lowest perplexity on a validation text; u is fitted exactly at each T.

    T is found with interpolated log-probabilities, the result is computed from exact ones and is
    never worse than T = 1.

    Args:
        scores: The LM at any T.
        base: log p_LM of the same targets, which is what the LM has at T = 1.
        unigrams: log of each target's share of the stored tokens.
    """
    look = evenly_spaced(len(unigrams), _LOOK)
    coarse = scores.sample(look).several(_COARSE)
    ppls = [_profile(logs, unigrams[look])[1] for logs in coarse]
    center = _COARSE[int(np.argmin(ppls))]
    for _ in range(len(_COARSE)):  # as often as there are ranges to move to
        near = scores.near(center)
        best = _best_near(near, unigrams)
        inside = center / _HIGH * 1.01 < best < center / _LOW / 1.01
        if inside or not _COARSE[0] < best < _COARSE[-1]:
            break
        center = best
    candidates = ((1.0, base), (best, scores.logprobs(best)))  # of equals the first
    fitted = [Calibrated(Calibration(t, *_profile(logs, unigrams)), logs) for t, logs in candidates]
    chosen, tempered = min(fitted, key=lambda each: each.calibration.valid_ppl)
    return Calibrated(chosen, mix(tempered, unigrams, chosen.share))


def calibrated_logprobs(scores: TemperedLM, unigrams: Logs, calibration: Calibration) -> Logs:
    """log p of every target under the calibrated LM."""
    return mix(scores.logprobs(calibration.temperature), unigrams, calibration.share)


def _profile(logs: Logs, unigrams: Logs) -> tuple[float, float]:
    """The best u at one T, and its perplexity."""
    share = fit_lambda(logs, unigrams)
    return share, perplexity(mix(logs, unigrams, share))


def _best_near(near: TemperedNear, unigrams: Logs) -> float:
    """The best T between the multiples of β that interpolate well: on a grid, then around it."""
    ends = math.log(near.center / _HIGH), math.log(near.center / _LOW)
    grid = np.linspace(*ends, 17)

    def ppl(log_t: float) -> float:
        return _profile(near.logprobs(math.exp(log_t)), unigrams)[1]

    best = int(np.argmin([ppl(float(x)) for x in grid]))
    around = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    lowest = minimize_scalar(ppl, bounds=around, method="bounded", options={"xatol": 1e-4})
    return math.exp(float(lowest.x))


def _lagrange(at: float, node: int) -> float:
    """The weight of one node in the polynomial through all of them."""
    others = np.array([other for other in range(1, _NODES + 1) if other != node])
    return float(np.prod((at - others) / (node - others)))
