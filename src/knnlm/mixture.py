"""λ: mixing two predictors, fitting the weight exactly, and the oracle that always picks the better one.

    log P = log( (1-λ) p_LM + λ p_kNN )

Works on log-probabilities of the true tokens; knows nothing of where they come from.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from knnlm.errors import UsageError

Logs = NDArray[np.floating]


def check_lambda(lam: float) -> None:
    """Refuse a weight outside 0 … 1."""
    if not 0 <= lam <= 1:
        raise UsageError(f"lambda {lam} is out of range: choose 0 to 1")


def mix(lm: Logs, other: Logs, lam: float) -> NDArray[np.float64]:
    """log((1-λ)·e^lm + λ·e^other), exact at λ = 0 and λ = 1."""
    check_lambda(lam)
    if lam == 0:
        return np.asarray(lm, np.float64)
    if lam == 1:
        return np.asarray(other, np.float64)
    return np.logaddexp(np.asarray(lm, np.float64) + math.log1p(-lam), np.asarray(other, np.float64) + math.log(lam))


def mix_vocabulary(lm: torch.Tensor, other: torch.Tensor, lam: float) -> torch.Tensor:
    """The same over whole vocabularies, on whatever device they are: log P (…, V) from log-probabilities (…, V)."""
    check_lambda(lam)
    if lam == 0:
        return lm
    if lam == 1:
        return other
    return torch.logaddexp(lm + math.log1p(-lam), other + math.log(lam))


def oracle(lm: Logs, other: Logs) -> NDArray[np.float64]:
    """log-probabilities of a mixture that knew, token by token, which predictor to trust."""
    return np.maximum(np.asarray(lm, np.float64), np.asarray(other, np.float64))


def fit_lambda(lm: Logs, other: Logs) -> float:
    """The λ of the highest likelihood.

    The log-likelihood is concave in λ, so its slope falls; the optimum is where it crosses zero, or an end of [0, 1].
    With r = p_other/p_LM the slope of a token is (r-1)/(1+λ(r-1)). Written with the posterior w = λr/(1-λ+λr) it is
    w/λ - (1-w)/(1-λ), which neither overflows nor divides by zero inside (0, 1).
    """
    gap = np.asarray(other, np.float64) - np.asarray(lm, np.float64)  # log r; -inf where nothing was retrieved

    def slope(lam: float) -> float:
        w = expit(gap + math.log(lam) - math.log1p(-lam))
        return float(np.mean(w / lam - (1 - w) / (1 - lam)))

    low, high = 1e-12, 1 - 1e-12
    if slope(low) <= 0:
        return 0.0
    if slope(high) >= 0:
        return 1.0
    return float(brentq(slope, low, high, xtol=1e-12))
