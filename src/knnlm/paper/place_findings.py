"""Findings that are no likelihoods: correlations with the place in the text, and words that cannot be chosen.

A correlation is about none where its whole interval lies within ± MARGIN. Whether a word can be the most probable one
is decided for every word, so there is no interval. Knows records only.
"""

import numpy as np

from knnlm.paper.findings import Claim, Finding, Records, Verdict, verdict
from knnlm.paper.recipes import ruled_out
from knnlm.paper.scales import Scale

MARGIN = 0.1
_PLACES = {"window": "the context in the window", "document": "the place in the document"}
_WHAT = {"loss": "the LM's loss", "gain": "what neighbours gain"}


def place_findings(records: Records, scale: Scale) -> list[Finding]:
    """One for each place and quantity. Of several seeds the mean; the interval spans those of all."""
    names = [row.name for row in ruled_out.location(scale).rows if row.name in records]
    if not names:
        return []
    found = []
    for place, where in _PLACES.items():
        for what, words in _WHAT.items():
            each = [records[name]["results"][place][what] for name in names]
            low, high = min(e["low"] for e in each), max(e["high"] for e in each)
            claim = Claim(
                name=f"{words} does not depend on {where}", says="No correlation with the place.",
                where="appendix E.3", terms=(), sense="same", margin=MARGIN, unit="r",
            )  # fmt: skip
            seeds = tuple(e["r"] for e in each)
            found.append(Finding(claim, float(np.mean(seeds)), low, high, seeds, verdict(claim, low, high)))
    return found


def stolen_findings(records: Records, scale: Scale) -> list[Finding]:
    """One for each LM: the effect is the share of words that no state can make the most probable one."""
    found = []
    for row in ruled_out.stolen(scale).rows:
        if row.name in records:
            r = records[row.name]["results"]
            share = r["unreachable"] / r["words"]
            said: Verdict = "does not hold" if r["unreachable"] else "holds"
            claim = Claim(name=f"every word can be the most probable one ({row.lm[0]})", where="appendix E.4", terms=(),
                          says="No word lies inside the convex hull of the others.")  # fmt: skip
            found.append(Finding(claim, share, share, share, (), said))
    return found
