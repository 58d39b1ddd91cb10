"""Findings that are no mixtures: whether the place in the text matters, and words that cannot be
chosen.

The place: how much more the loss, or what neighbours gain, is in the last third of the places than
in the first, as a relative difference of perplexity per token; "no difference" holds where the
interval lies within the margin. Documents are resampled, and each document's sums are averaged over
the seeds first. Whether a word can be the most probable one is decided for every word, so there is
no interval. Knows records only."""

import itertools
from typing import Any

import numpy as np

from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm_paper.conditions.place_in_text import Third, Thirds
from knnlm_paper.experiments import ruled_out
from knnlm_paper.findings import Claim, Finding, Verdict, verdict
from knnlm_paper.results import Results

MARGIN = 0.01
STOLEN = "every word can be the most probable one"
_THIRDS = ("first", "last")
PLACES = {"window": "the context in the window", "document": "the place in the document"}
QUANTITIES = {"loss": "the LM's loss", "gain": "what neighbours gain"}


def place_findings(results: Results) -> list[Finding]:
    """One for each place and quantity."""
    rows = [
        results.measurement(row)
        for row in ruled_out.location(results.scale).conditions
        if row in results
    ]
    found = []
    for (place, where), (what, words) in itertools.product(PLACES.items(), QUANTITIES.items()):
        each: list[Thirds] = [getattr(getattr(r, place), what).thirds for r in rows]
        each = [thirds for thirds in each if min(sum(t.tokens) for t in _both(thirds)) > 0]
        if each:
            claim = Claim(
                name=f"{words} does not depend on {where}",
                says="As much in the last third of the places as in the first.",
                where="appendix E.3",
                terms=(),
                sense="same",
                margin=MARGIN,
            )
            seeds = tuple(float(np.expm1(_difference([thirds])[0])) for thirds in each)
            value, draws = _difference(each)
            low, high = np.expm1(interval_95(draws))
            said = verdict(claim, float(low), float(high))
            found.append(
                Finding(claim, float(np.expm1(value)), float(low), float(high), seeds, said)
            )
    return found


def _both(thirds: Thirds) -> tuple[Third, Third]:
    return thirds.first, thirds.last


def _difference(each: list[Thirds]) -> tuple[float, Any]:
    """Mean of the last third minus that of the first, in nats, and the same for documents drawn
    anew."""
    tokens, sums = (
        {
            t: np.mean([getattr(getattr(thirds, t), name) for thirds in each], axis=0)
            for t in _THIRDS
        }
        for name in ("tokens", "sum")
    )
    value = sums["last"].sum() / tokens["last"].sum() - sums["first"].sum() / tokens["first"].sum()
    drawn = {
        t: bootstrap_means(sums[t], tokens[t]) for t in _THIRDS
    }  # the same draws of documents for both
    return float(value), drawn["last"] - drawn["first"]


def stolen_findings(results: Results) -> list[Finding]:
    """One for each LM: the effect is the share of words that no state can make the most probable
    one."""
    found = []
    for row in ruled_out.stolen(results.scale).conditions:
        if row in results:
            r = results.measurement(row)
            share = r.unreachable / r.vocabulary
            said: Verdict = "does not hold" if r.unreachable else "holds"
            claim = Claim(
                name=f"{STOLEN} ({row.lm.name})",
                where="appendix E.4",
                terms=(),
                sense="same",
                margin=0.0,
                says="No word lies inside the convex hull of the others.",
            )
            found.append(Finding(claim, share, share, share, (), said))
    return found
