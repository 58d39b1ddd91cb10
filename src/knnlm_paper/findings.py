"""Claims as checks over results: an effect, its interval, and a verdict.

A claim is a weighted sum of log-likelihoods of rows, Δ = Σ c·log p. Its effect is exp(Δ/words) - 1,
the relative change of perplexity per word that Δ stands for: S(att) - S(ffn) gives
ppl(ffn)/ppl(att) - 1, above zero where att is better. Per word, because the paper's are, and
because words cut into more pieces have smaller changes for each piece.

                     "more"                        "same"              "no more"
    does not hold    interval below the margin     outside ± margin    else, where above zero
    holds            else, where above zero        within ± margin     below the margin
    undecided        the interval allows both, or the seeds disagree about the sign.
    no question      another claim, on which this one stands (`given`), does not hold.

The interval is a paired bootstrap over documents. Where a claim was measured for several seeds, of
the LM or of what is learned from it, each document's Δ is averaged over them first, and the effect
of every seed is shown; what varies from LM to LM, from index to index and from draw to draw is not
in the interval. Knows results only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm_paper.conditions import KNN, PaperCondition
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval

Verdict = Literal["holds", "does not hold", "undecided", "no question", "not measured"]
Compared = Retrieval | PaperCondition[Any]
"""What claims compare: a condition, or a retrieval, which stands for its `KNN`."""
MARGIN = 0.005
OVER_CALIBRATED = ", over the calibrated LM"
"""In the name of a claim: the LM has its own softmax temperature and a unigram share first."""
OVER = {"own_tau": ("base", ""), "on_calibrated": ("calibrated", OVER_CALIBRATED)}
"""Fields of a record with every weight and τ tuned: what each is a gain over, and how the name of
its claim ends."""


class Term(NamedTuple):
    """`weight` × log-likelihood of `condition` at a point of its measurement: base, calibrated,
    tau_1, own_tau, …"""

    weight: float
    condition: PaperCondition[Any]
    field: str


def term(weight: float, compared: Compared, field: str) -> Term:
    """A term of a condition or of the neighbors of a retrieval."""
    condition = KNN(compared) if isinstance(compared, Retrieval) else compared
    return Term(weight, condition, field)


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
    sense: Literal["more", "same", "no more"] = "more"
    margin: float = MARGIN
    """An effect smaller than this does not count; where the paper's own is small, half of that."""
    given: tuple[Term, ...] = ()
    """Of the claim that must hold for this one to be a question."""
    unit: Literal["%", "slope"] = "%"
    """What an effect is: a share or a slope."""

    def __post_init__(self) -> None:
        if self.sense == "more" and self.paper is not None:
            object.__setattr__(self, "margin", min(self.margin, self.paper / 2))


class Finding(NamedTuple):
    """What came of a claim. `seeds` are the effects of the single LMs."""

    claim: Claim
    effect: float
    low: float
    high: float
    seeds: tuple[float, ...]
    verdict: Verdict


def better(a: Compared, b: Compared, field: str, other: str | None = None) -> tuple[Term, ...]:
    """How much lower a's perplexity is than b's, as a share of a's."""
    return (term(1.0, a, field), term(-1.0, b, other or field))


def gain(arm: Compared, field: str, base: str = "base") -> tuple[Term, ...]:
    """How much lower the arm's perplexity is than its own LM's."""
    return (term(1.0, arm, field), term(-1.0, arm, base))


def less(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The opposite: `gain(a) + less(gain(b))` is how much larger a's gain is."""
    return times(-1.0, terms)


def times(factor: float, terms: Sequence[Term]) -> tuple[Term, ...]:
    """`gain(a) + times(-0.9, gain(b))` is how far a's gain is beyond 90 % of b's."""
    return tuple(t._replace(weight=factor * t.weight) for t in terms)


def check(claim: Claim, results: Results, seeds: Sequence[str]) -> Finding:
    """The verdict on a claim; terms on "main" are taken for every seed of it that was measured,
    `seeds` of the LM or, where something learned is compared, every seed of that."""
    found = _effects(claim.terms, results, seeds)
    if found is None:
        return Finding(claim, np.nan, np.nan, np.nan, (), "not measured")
    said = verdict(claim, found.low, found.high)
    if said == "holds" and claim.sense == "more" and min(found.seeds) < 0:
        said = "undecided"
    if claim.given:
        first = _effects(claim.given, results, seeds)
        said = said if first is not None and first.low > 0 else "no question"
    return Finding(claim, found.value, found.low, found.high, found.seeds, said)


def verdict(claim: Claim, low: float, high: float) -> Verdict:
    """What an interval says about a claim."""
    if claim.sense == "same":
        inside = -claim.margin < low and high < claim.margin
        outside = low > claim.margin or high < -claim.margin
        return "holds" if inside else "does not hold" if outside else "undecided"
    if claim.sense == "no more":
        return "holds" if high < claim.margin else "does not hold" if low > 0 else "undecided"
    return "does not hold" if high < claim.margin else "holds" if low > 0 else "undecided"


class _Effects(NamedTuple):
    value: float
    low: float
    high: float
    seeds: tuple[float, ...]


def _effects(terms: Sequence[Term], results: Results, seeds: Sequence[str]) -> _Effects | None:
    found = [
        d
        for chosen in _each_seed(terms, results, seeds)
        if (d := _delta(chosen, results)) is not None
    ]
    if not found:
        return None
    words = found[0].words
    pooled = np.mean([d.delta for d in found], axis=0)
    low, high = np.expm1(interval_95(bootstrap_means(pooled, words)))
    return _Effects(
        _effect(pooled, words),
        float(low),
        float(high),
        tuple(_effect(d.delta, words) for d in found),
    )


class _Delta(NamedTuple):
    """Δ of every document, and its words (a share of the text's, by its tokens)."""

    delta: NDArray[np.float64]
    words: NDArray[np.float64]


def _each_seed(
    terms: Sequence[Term], results: Results, seeds: Sequence[str]
) -> Iterator[list[Term]]:
    """The same terms for every seed of the LM, or, where something learned is among them, of what
    is learned."""
    conditions = [t.condition for t in terms]
    if all(c.lm.name == "main" and not c.has_seed for c in conditions):
        yield from ([t._replace(condition=t.condition.with_lm(lm)) for t in terms] for lm in seeds)
        return
    seed, before = 0, None
    while True:
        chosen = [t._replace(condition=t.condition.with_seed(seed)) for t in terms]
        if chosen == before or (seed and any(t.condition not in results for t in chosen)):
            return
        yield chosen
        seed, before = seed + 1, chosen


def _delta(terms: Sequence[Term], results: Results) -> _Delta | None:
    """None where a row, or a number of it (a perplexity that is infinite), is missing. Rows of
    different texts are never compared."""
    sums = [results.log_likelihoods(t.condition, t.field) for t in terms]
    if any(total is None for total in sums):
        return None
    first = terms[0].condition
    if any(results.document_tokens(t.condition) != results.document_tokens(first) for t in terms):
        raise KnnlmError(
            "conditions of different test tokens cannot be compared: measure them again in another "
            "--out"
        )
    total = sum(t.weight * np.asarray(s, np.float64) for t, s in zip(terms, sums, strict=True))
    tokens = np.asarray(results.document_tokens(first), np.float64)
    words = tokens * results.words(first) / tokens.sum()
    return _Delta(np.asarray(total, np.float64), words)


def _effect(delta: NDArray[np.float64], words: NDArray[np.float64]) -> float:
    return float(np.expm1(delta.sum() / words.sum()))
