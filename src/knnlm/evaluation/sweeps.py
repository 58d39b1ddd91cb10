"""Sweep: perplexity at every k × τ × λ of a grid, in one pass over the neighbors of a text.

    mean log P = mean of  log p_LM + log(1-λ) + softplus(x + logit λ),   x = log p_kNN/p_LM

A token's λ and x meet in one smooth function of their sum. So tokens are not visited again for each
λ: those with similar x share a bin, which keeps five power sums of their distances from its start,
and a polynomial through five points gives softplus within it. That is off by less than 1e-10 nats a
token, however many λ there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import TargetVotes
from knnlm.errors import UsageError
from knnlm.evaluation.mixing import Logs
from knnlm.ranges import check_lambda, check_temperature
from knnlm.workers import core_count, on_all_cores

_WIDTH = 1 / 8
"""Of a bin, in nats. The fifth derivative of softplus is below 0.13, so that the interpolation is
off by less than 0.13/5! · (_WIDTH/2)^5 / 2^4 < 7e-11."""
_POWERS = 5
_NEGLIGIBLE = 30.0
"""softplus(-30) < 1e-13: what is below counts as there; above 30, softplus(y) is y as exactly."""


class SweepPoint(NamedTuple):
    """A point of the grid and its perplexity."""

    k: int
    tau: float
    lam: float
    ppl: float


@dataclass(frozen=True, eq=False)
class Sweep:
    """Mean log P of a text at every point of a grid.

    Attributes:
        ks: How many neighbors vote.
        taus: Retrieval temperatures.
        lams: Interpolation weights.
        logprob: (k, τ, λ) mean log P of a token; -inf where one is impossible.
    """

    ks: tuple[int, ...]
    taus: tuple[float, ...]
    lams: tuple[float, ...]
    logprob: NDArray[np.float64]

    @cached_property
    def perplexity(self) -> NDArray[np.float64]:
        """(k, τ, λ) perplexity per token; ∞ where a token is impossible."""
        with np.errstate(over="ignore"):
            return np.exp(-self.logprob)

    def best(self) -> SweepPoint:
        """The point of the lowest perplexity; of equal ones the first."""
        k, tau, lam = np.unravel_index(int(self.logprob.argmax()), self.logprob.shape)
        ppl = float(self.perplexity[k, tau, lam])
        return SweepPoint(self.ks[k], self.taus[tau], self.lams[lam], ppl)


def sweep(
    lm_logprob: Logs,
    votes: TargetVotes,
    ks: Sequence[int],
    taus: Sequence[float],
    lams: Sequence[float],
) -> Sweep:
    """Perplexity of a text at every k × τ × λ of a grid.

    Args:
        lm_logprob: log p_LM of the text's targets.
        votes: Their neighbors, compared with them: `KNN.target_scores`.
        ks: How many of the nearest neighbors vote: ascending, at most as many as `votes` has.
        taus: Retrieval temperatures, in any order.
        lams: Interpolation weights, in any order.

    Raises:
        UsageError: A list is empty or a number is out of range, or log p_LM is not finite.

    Example:
        >>> votes = KNN(store, Retrieval(k=1024)).target_scores(valid)          # doctest: +SKIP
        >>> grid = np.geomspace(0.1, 10, 60) * votes.unit                       # doctest: +SKIP
        >>> swept = sweep(valid.lm_logprob, votes, [64, 1024], grid, [0.1, 0.2])  # doctest: +SKIP
        >>> swept.best(), swept.perplexity.shape                                # doctest: +SKIP
    """
    lm = np.asarray(lm_logprob, np.float64)
    _check(lm, votes, ks, taus, lams)
    weights = np.asarray(lams, np.float64)
    inside = (weights > 0) & (weights < 1)
    logits = np.log(weights[inside]) - np.log1p(-weights[inside])
    bins = _Bins.over(logits)
    edges = np.linspace(0, len(lm), min(core_count(), len(lm)) + 1).astype(int)
    spans = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    sums = on_all_cores(lambda span: _summed(lm, votes, ks, taus, bins, span), spans)
    powers, over, covered, total = (sum(parts) for parts in zip(*sums, strict=True))
    logprob = np.empty((len(ks), len(taus), len(weights)))
    logprob[..., weights == 0] = 0.0
    with np.errstate(invalid="ignore"):
        of_all = np.where(covered == len(lm), total, -np.inf)
    logprob[..., weights == 1] = of_all[..., None]
    coefficients = bins.coefficients(logits)
    mixed = powers @ coefficients + over[..., None]
    logprob[..., inside] = mixed + len(lm) * np.log1p(-weights[inside])
    logprob = (logprob + lm.sum()) / len(lm)
    return Sweep(
        tuple(int(k) for k in ks),
        tuple(float(tau) for tau in taus),
        tuple(float(lam) for lam in lams),
        logprob,
    )


class _Bins(NamedTuple):
    """Bins of x = log p_kNN/p_LM: what is below the first counts as in it, what is above the last
    is linear."""

    low: float
    number: int

    @classmethod
    def over(cls, logits: NDArray[np.float64]) -> "_Bins":
        """Bins in which softplus(x + logit λ) is neither zero nor linear for some λ."""
        if not len(logits):
            return cls(0.0, 1)
        low = -_NEGLIGIBLE - float(logits.max())
        high = _NEGLIGIBLE - float(logits.min())
        return cls(low, int(np.ceil((high - low) / _WIDTH)))

    @property
    def high(self) -> float:
        """Where softplus(x + logit λ) is linear for all λ."""
        return self.low + self.number * _WIDTH

    def coefficients(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """(power and bin, λ) of the polynomial that is softplus(x + logit λ) in each bin."""
        nodes = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
        middles = self.low + (np.arange(self.number) + 0.5) * _WIDTH
        x = middles[:, None] + nodes * (_WIDTH / 2)
        y = torch.from_numpy(x.T[:, :, None] + logits)
        values = torch.logaddexp(y, torch.zeros((), dtype=y.dtype)).numpy()
        inverse = np.linalg.inv(np.vander((nodes + 1) / 2, increasing=True))
        coefficients: NDArray[np.float64] = inverse @ values.reshape(_POWERS, -1)
        return coefficients.reshape(_POWERS * self.number, -1)


class _Sums(NamedTuple):
    """What is added up over tokens, for each k and τ. A token without a hit among k neighbors is in
    the first bin, where softplus counts as zero, if it has one among more."""

    powers: NDArray[np.float64]
    """(k, τ, power and bin) of the distance from the bin's start, in its width."""
    over: NDArray[np.float64]
    """(k, τ) of what x is above the last bin."""
    covered: NDArray[np.int64]
    """(k, 1) how many have a hit."""
    total: NDArray[np.float64]
    """(k, τ) of x."""


def _summed(
    lm: NDArray[np.float64],
    votes: TargetVotes,
    ks: Sequence[int],
    taus: Sequence[float],
    bins: _Bins,
    span: tuple[int, int],
) -> _Sums:
    """The sums of tokens start … stop-1."""
    grid = (len(ks), len(taus))
    of_tau = _POWERS * bins.number
    powers = torch.zeros(len(ks), len(taus) * of_tau, dtype=torch.float64)
    sums = _Sums(np.empty(0), np.zeros(grid), np.zeros((len(ks), 1), np.int64), np.zeros(grid))
    row = (torch.arange(len(taus)) * of_tau)[:, None]
    last = float(np.nextafter(bins.number, 0))
    for queries, logs in votes.grid(ks, taus, *span):
        if not len(queries):
            continue
        logs -= lm[queries]
        for number, of_k in enumerate(logs):
            covered = int(np.count_nonzero(of_k[0] > -np.inf))
            sums.covered[number] += covered
            if covered == len(queries):
                sums.total[number] += of_k.sum(1)
            x = torch.from_numpy(of_k)
            if float(x.max()) > bins.high:
                sums.over[number] += (x - bins.high).clamp_(min=0).sum(1).numpy()
            at = x.sub_(bins.low).mul_(1 / _WIDTH).clamp_(0, last)
            where = at.long().add_(row).view(-1)
            distance = at.frac_().view(-1)
            power = torch.ones_like(distance)
            for exponent in range(_POWERS):
                powers[number, exponent * bins.number :].scatter_add_(0, where, power)
                power.mul_(distance)
    shaped = powers.view(len(ks), len(taus), of_tau)
    return sums._replace(powers=shaped.numpy())


def _check(
    lm: NDArray[np.float64],
    votes: TargetVotes,
    ks: Sequence[int],
    taus: Sequence[float],
    lams: Sequence[float],
) -> None:
    """Refuse a grid that is empty or out of range."""
    if len(lm) != len(votes.neighbors):
        raise ValueError(f"{len(lm)} log p_LM but {len(votes.neighbors)} queries")
    if not len(lm):
        raise UsageError("the text has no tokens: give a longer one")
    for name, values in (("ks", ks), ("taus", taus), ("lams", lams)):
        if not len(values):
            raise UsageError(f"no `{name}` given: give at least one")
    if list(ks) != sorted(set(ks)) or ks[0] < 1 or ks[-1] > votes.k:
        raise UsageError(f"`ks` must ascend from 1 at least to {votes.k} at most: they are {ks}")
    for tau in taus:
        check_temperature(tau)
    for lam in lams:
        check_lambda(lam)
    if not np.isfinite(lm).all():
        raise UsageError("log p_LM is not finite for some tokens: sweep a text without them")
