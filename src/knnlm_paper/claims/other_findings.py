"""Findings that are no sums of log-likelihoods: the place in the text, tokens that cannot be
chosen, and kinds of words.

The place: how much more the loss, or what neighbors gain, is in the last third of the places than
in the first, as a relative difference of perplexity per token; "no difference" holds where the
interval lies within the margin. Documents are resampled, and each document's sums are averaged over
the seeds first.

Tokens: whether one can be the most probable is decided for every token, so there is no interval.

Words (appendix D): minus the slope of (share of occurrences that exact neighbors help - share that
an index's help) against an attribute, above zero where the index gains with it. Words are
resampled.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm_paper.claims.claim import Claim
from knnlm_paper.claims.deciding import Finding, Verdict, not_measured, verdict
from knnlm_paper.claims.trends import trend
from knnlm_paper.conditions.place_in_text import Thirds
from knnlm_paper.experiments import ruled_out
from knnlm_paper.experiments import words as words_experiment
from knnlm_paper.results import Results

MARGIN = 0.01
_THIRDS = ("first", "last")
_PLACES = {"window": "the context in the window", "document": "the place in the document"}
_QUANTITIES = {"loss": "The LM's loss", "gain": "What neighbors gain"}
_ATTRIBUTES = {
    "length": ("longer-words-gain-from-an-index", "Longer words gain from an index."),
    "forward": (
        "varied-followers-gain-from-an-index",
        "Words with varied followers gain from an index.",
    ),
    "backward": (
        "varied-predecessors-gain-from-an-index",
        "Words with varied predecessors gain from an index.",
    ),
}
_LEAST_WORDS = 10


def place_findings(results: Results) -> list[Finding]:
    """One for each place and quantity."""
    conditions = ruled_out.location(results.scale).conditions
    measured = [results.measurement(each) for each in conditions if each in results]
    findings = []
    for (place, where), (quantity, name) in itertools.product(_PLACES.items(), _QUANTITIES.items()):
        thirds: list[Thirds] = [getattr(getattr(m, place), quantity).thirds for m in measured]
        thirds = [t for t in thirds if min(sum(t.first.tokens), sum(t.last.tokens)) > 0]
        claim = Claim(
            topic=f"{quantity}-does-not-depend-on-the-{place}",
            sentence=f"{name} does not depend on {where}.",
            source="appendix E.3",
            sense="same",
            margin=MARGIN,
            unit="difference",
        )
        if not thirds:
            findings.append(not_measured(claim))
            continue
        seeds = tuple(float(np.expm1(_difference([each])[0])) for each in thirds)
        value, draws = _difference(thirds)
        low, high = (float(end) for end in np.expm1(interval_95(draws)))
        decided = verdict(claim, low, high)
        findings.append(Finding(claim, float(np.expm1(value)), low, high, seeds, decided))
    return findings


def _difference(seeds: Sequence[Thirds]) -> tuple[float, Any]:
    """Mean of the last third minus that of the first, in nats, and the same for documents that are
    drawn again."""
    tokens, sums = (
        {
            t: np.mean([getattr(getattr(thirds, t), name) for thirds in seeds], axis=0)
            for t in _THIRDS
        }
        for name in ("tokens", "sum")
    )
    means = {t: sums[t].sum() / tokens[t].sum() for t in _THIRDS}
    # the same draws of documents for both
    drawn = {t: bootstrap_means(sums[t], tokens[t]) for t in _THIRDS}
    return float(means["last"] - means["first"]), drawn["last"] - drawn["first"]


def reachable_findings(results: Results) -> list[Finding]:
    """One for each LM: the effect is the share of tokens that no state makes the most probable."""
    findings = []
    for row in ruled_out.stolen(results.scale).conditions:
        claim = Claim(
            topic=f"every-token-can-win-{row.lm.name}",
            sentence=f"Every token can be the most probable one ({row.lm.name}).",
            source="appendix E.4",
            sense="same",
            margin=0.0,
            unit="share",
        )
        if row not in results:
            findings.append(not_measured(claim))
            continue
        measured = results.measurement(row)
        share = measured.unreachable / measured.vocabulary
        decided: Verdict = "does not hold" if measured.unreachable else "holds"
        findings.append(Finding(claim, share, share, share, (), decided))
    return findings


def word_findings(results: Results) -> list[Finding]:
    """One for each attribute; not measured where there are too few words."""
    (condition,) = words_experiment.experiment(results.scale).conditions
    words = results.measurement(condition).types if condition in results else ()
    findings = []
    for attribute, (topic, sentence) in _ATTRIBUTES.items():
        claim = Claim(topic=topic, sentence=sentence, source="appendix D", margin=0.0, unit="slope")
        if len(words) < _LEAST_WORDS:
            findings.append(not_measured(claim))
            continue
        line = trend(
            [getattr(w, attribute) for w in words], [w.exact - w.approximate for w in words]
        )
        low, high = -line.high, -line.low
        findings.append(Finding(claim, -line.slope, low, high, (), verdict(claim, low, high)))
    return findings
