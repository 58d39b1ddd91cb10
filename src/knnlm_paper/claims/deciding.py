"""Findings: what measurements say of claims.

The effect of a claim Δ is exp(Δ/words) - 1, by how much the worse perplexity per word exceeds the
better. Per word, because the paper's are, and because words cut into more tokens have smaller
changes for each token.

What an interval says of a claim is in `knnlm.evaluation.comparison`. Here two things are added:

    undecided        also where a claim would hold, and the seeds disagree
    no question      another claim, on which this one stands (`given`), is not known to hold

The interval is a paired bootstrap over documents. Where a claim was measured for several seeds, of
the LM or of what is learned from it, each document's Δ is averaged over them first; what varies
from LM to LM, from index to index and from draw to draw is not in the interval.

For readers a finding is a change of perplexity, minus is better: exp(-Δ/tokens) - 1 per token, or
per word beside the paper's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.evaluation import comparison
from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm.evaluation.comparison import Decision
from knnlm_paper.claims.claim import Claim, Term
from knnlm_paper.results import Results

_OTHER_TOKENS = (
    "conditions of different test tokens cannot be compared: measure them again in another `out`"
)
Verdict = Decision | Literal["no question", "not measured"]


class Change(NamedTuple):
    """A relative change of perplexity with its 95 % interval; minus is better."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """What came of a claim.

    Args:
        claim: The claim.
        effect: exp(Δ/words) - 1, or a slope, averaged over seeds.
        low: The lower end of its 95 % interval.
        high: The upper end.
        seeds: The effect of every seed.
        verdict: What they say of the claim.
        tokens_per_word: Of the test text.
    """

    claim: Claim
    effect: float
    low: float
    high: float
    seeds: tuple[float, ...]
    verdict: Verdict
    tokens_per_word: float = 1.0

    @property
    def per_word(self) -> Change:
        """The change of perplexity per word."""
        return self._change(1.0)

    @property
    def per_token(self) -> Change:
        """The change of perplexity per token."""
        return self._change(self.tokens_per_word)

    def _change(self, pieces: float) -> Change:
        value, low, high = (
            float((1 + effect) ** (-1 / pieces) - 1)
            for effect in (self.effect, self.high, self.low)
        )
        return Change(value, low, high)


def decide(claim: Claim, results: Results) -> Finding:
    """The finding on a claim. Terms on "main" are taken for every seed of it that was measured, or,
    where something learned is compared, for every seed of that."""
    effects = _effects(claim.terms, results)
    if effects is None:
        return not_measured(claim)
    decided: Verdict = verdict(claim, effects.low, effects.high)
    if decided == "holds" and claim.sense == "more" and min(effects.seeds) < 0:
        decided = "undecided"
    if claim.given:
        first = _effects(claim.given, results)
        decided = decided if first is not None and first.low > 0 else "no question"
    return Finding(claim, *effects[:4], decided, effects.tokens_per_word)


def not_measured(claim: Claim) -> Finding:
    """The finding on a claim whose conditions are not in the results."""
    return Finding(claim, np.nan, np.nan, np.nan, (), "not measured")


def verdict(claim: Claim, low: float, high: float) -> Decision:
    """What an interval says about a claim."""
    return comparison.verdict(claim.sense, claim.margin, low, high)


class _Effects(NamedTuple):
    value: float
    low: float
    high: float
    seeds: tuple[float, ...]
    tokens_per_word: float


class _Delta(NamedTuple):
    """Δ of every document, its words (a share of the text's, by its tokens) and its tokens."""

    delta: NDArray[np.float64]
    words: NDArray[np.float64]
    tokens: NDArray[np.float64]


def _effects(terms: Sequence[Term], results: Results) -> _Effects | None:
    seeds = [_delta(chosen, results) for chosen in _each_seed(terms, results)]
    measured = [each for each in seeds if each is not None]
    if not measured:
        return None
    words, tokens = measured[0].words, measured[0].tokens
    if any(not np.array_equal(each.tokens, tokens) for each in measured):
        raise KnnlmError(_OTHER_TOKENS)
    pooled = np.mean([each.delta for each in measured], axis=0)
    low, high = np.expm1(interval_95(bootstrap_means(pooled, words)))
    return _Effects(
        _effect(pooled, words),
        float(low),
        float(high),
        tuple(_effect(each.delta, words) for each in measured),
        float(tokens.sum() / words.sum()),
    )


def _effect(delta: NDArray[np.float64], words: NDArray[np.float64]) -> float:
    return float(np.expm1(delta.sum() / words.sum()))


def _delta(terms: Sequence[Term], results: Results) -> _Delta | None:
    """None where a condition, or a number of it (a perplexity that is infinite), is missing."""
    sums = [results.log_likelihoods(term.condition, term.point) for term in terms]
    if any(total is None for total in sums):
        return None
    first = terms[0].condition
    counts = results.document_tokens(first)
    if any(results.document_tokens(term.condition) != counts for term in terms):
        raise KnnlmError(_OTHER_TOKENS)
    total = sum(
        term.weight * np.asarray(each, np.float64) for term, each in zip(terms, sums, strict=True)
    )
    tokens = np.asarray(counts, np.float64)
    words = tokens * results.words(first) / tokens.sum()
    return _Delta(np.asarray(total, np.float64), words, tokens)


def _each_seed(terms: Sequence[Term], results: Results) -> Iterator[list[Term]]:
    """The same terms for every seed of the LM, or, where something learned is among them, of what
    is learned."""
    main = results.scale.seeds[0]
    if all(t.condition.lm.name == main and not t.condition.has_seed for t in terms):
        for lm in results.scale.seeds:
            yield [t._replace(condition=t.condition.with_lm(lm)) for t in terms]
        return
    seed, before = 0, None
    while True:
        chosen = [t._replace(condition=t.condition.with_seed(seed)) for t in terms]
        if chosen == before or (seed and any(t.condition not in results for t in chosen)):
            return
        yield chosen
        seed, before = seed + 1, chosen
