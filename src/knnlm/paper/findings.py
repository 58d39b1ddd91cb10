"""Claims as checks over records: an effect, its interval, and a verdict.

A claim is a weighted sum of log-likelihoods of rows, Δ = Σ c·log p. Its effect is exp(Δ/tokens) - 1, the relative
change of perplexity that Δ stands for: S(att) - S(ffn) gives ppl(ffn)/ppl(att) - 1, above zero where att is better.

    holds            "more": the interval lies above zero.   "same": it lies within ± margin.
    does not hold    "more": it lies below the margin.       "same": it lies outside ± margin.
    undecided        the interval allows both.

The interval is a paired bootstrap over documents. Where a claim was measured for several seeds of the LM, each
document's Δ is averaged over them first, and the effect of every seed is shown. Knows records only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.metrics import bootstrap_means
from knnlm.paper.rows import Arm

Records = Mapping[str, Mapping[str, Any]]
Verdict = Literal["holds", "does not hold", "undecided", "not measured"]
MARGIN = 0.005


class Term(NamedTuple):
    """`weight` × log-likelihood of `arm` as its record's `field` says: base, calibrated, tau_1, tuned, …"""

    weight: float
    arm: Arm
    field: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that rows can confirm or refute."""

    name: str
    says: str
    """What is claimed, in a sentence."""
    where: str
    terms: tuple[Term, ...]
    paper: float | None = None
    """The paper's own effect, where it prints one."""
    sense: Literal["more", "same"] = "more"
    margin: float = MARGIN
    """An effect smaller than this does not count."""


class Finding(NamedTuple):
    """What came of a claim. `seeds` are the effects of the single LMs."""

    claim: Claim
    effect: float
    low: float
    high: float
    seeds: tuple[float, ...]
    verdict: Verdict


def better(a: Arm, b: Arm, field: str, other: str | None = None) -> tuple[Term, ...]:
    """How much lower a's perplexity is than b's, as a share of a's."""
    return (Term(1.0, a, field), Term(-1.0, b, other or field))


def gain(arm: Arm, field: str, base: str = "base") -> tuple[Term, ...]:
    """How much lower the arm's perplexity is than its own LM's."""
    return (Term(1.0, arm, field), Term(-1.0, arm, base))


def less(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The opposite: `gain(a) + less(gain(b))` is how much larger a's gain is."""
    return tuple(t._replace(weight=-t.weight) for t in terms)


def check(claim: Claim, records: Records, seeds: Sequence[str]) -> Finding:
    """The verdict on a claim; terms on "main" are taken for every seed of it that was measured."""
    deltas, tokens = [], None
    for lm in seeds if all(t.arm.lm == "main" for t in claim.terms) else ("main",):
        found = _delta([_of(t, lm) for t in claim.terms], records)
        if found is not None:
            deltas.append(found[0])
            tokens = found[1]
    if tokens is None:
        return Finding(claim, np.nan, np.nan, np.nan, (), "not measured")
    pooled = np.mean(deltas, axis=0)
    low, high = np.expm1(np.quantile(bootstrap_means(pooled, tokens), [0.025, 0.975]))
    effect = _effect(pooled, tokens)
    per_seed = tuple(_effect(d, tokens) for d in deltas)
    return Finding(claim, effect, float(low), float(high), per_seed, verdict(claim, float(low), float(high)))


def verdict(claim: Claim, low: float, high: float) -> Verdict:
    """What an interval says about a claim."""
    if claim.sense == "same":
        inside = -claim.margin < low and high < claim.margin
        outside = low > claim.margin or high < -claim.margin
        return "holds" if inside else "does not hold" if outside else "undecided"
    return "holds" if low > 0 else "does not hold" if high < claim.margin else "undecided"


def _of(term: Term, lm: str) -> Term:
    return term._replace(arm=replace(term.arm, lm=lm)) if term.arm.lm == "main" else term


def _delta(terms: Sequence[Term], records: Records) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Δ of every document, and its tokens; None where a row is missing."""
    if any(t.arm.name not in records for t in terms):
        return None
    documents = [records[t.arm.name]["results"]["documents"] for t in terms]
    tokens = np.asarray(documents[0]["tokens"], np.float64)
    total = sum(t.weight * np.asarray(d[t.field], np.float64) for t, d in zip(terms, documents, strict=True))
    return np.asarray(total, np.float64), tokens


def _effect(delta: NDArray[np.float64], tokens: NDArray[np.float64]) -> float:
    return float(np.expm1(delta.sum() / tokens.sum()))
