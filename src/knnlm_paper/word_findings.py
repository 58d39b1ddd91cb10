"""Appendix D's claims: approximation helps long words and words with varied neighbours. Slopes
instead of likelihoods.

The effect is minus the slope of (share of occurrences that exact neighbours help - share that
approximate ones help) against the attribute: above zero where approximation gains with it. The
interval resamples words."""

from knnlm_paper.conditions import WordTypes
from knnlm_paper.experiments import words as experiment
from knnlm_paper.findings import Claim, Finding, verdict
from knnlm_paper.results import Results
from knnlm_paper.trends import trend

ATTRIBUTES = {
    "length": (
        "longer words gain from approximation",
        "Longer tokens are better with approximate neighbours.",
    ),
    "forward": (
        "words with varied followers gain from approximation",
        "High forward entropy favours approximation.",
    ),
    "backward": (
        "words with varied predecessors gain from approximation",
        "So does high backward entropy.",
    ),
}
_LEAST_WORDS = 10


def word_findings(results: Results) -> list[Finding]:
    """One finding for each attribute; none where there are too few words."""
    (row,) = experiment.experiment(results.scale).conditions
    assert isinstance(row, WordTypes)
    kinds = results.measurement(row).types if row in results else ()
    if len(kinds) < _LEAST_WORDS:
        return []
    found = []
    for attribute, (name, says) in ATTRIBUTES.items():
        line = trend(
            [getattr(w, attribute) for w in kinds], [w.exact - w.approximate for w in kinds]
        )
        claim = Claim(name=name, says=says, where="appendix D", terms=(), margin=0.0, unit="slope")
        found.append(
            Finding(
                claim, -line.slope, -line.high, -line.low, (), verdict(claim, -line.high, -line.low)
            )
        )
    return found
