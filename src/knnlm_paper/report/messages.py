"""The titles of figures: a message about the laptop results, where they say so; else, and at other
scales, what is drawn."""

from collections.abc import Callable
from typing import NamedTuple

from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.recompute import four
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.results import Results
from knnlm_paper.retrieval import paper_retrieval

_NEARLY = 1.25
"""Temperatures that differ by a smaller factor are nearly the same."""


class Message(NamedTuple):
    """What a figure says, and whether results do."""

    text: str
    holds: Callable[[Evidence], bool]


def _ladder(evidence: Evidence) -> bool:
    over_both = ("knn-helps-exact@own-tau", "knn-helps-exact@calibrated")
    return evidence.hold(*over_both) and evidence.alike(*over_both)


def _reasons(evidence: Evidence) -> bool:
    return evidence.fail(
        "att-beats-ffn@own-tau",
        "att-beats-ffn-exact@own-tau",
        "index-beats-exact@own-tau",
        "index-neighbors-beat-exact-ones@own-tau",
    )


def _only_the_least_trained(evidence: Evidence) -> bool:
    ahead = evidence.lms_ahead("att")
    least = min((step for _, step in evidence.results.scale.checkpoints), default=None)
    return bool(ahead) and all(lm.step == least for lm in ahead)


def _less_known(evidence: Evidence) -> bool:
    return evidence.gain_falls_with_width() and evidence.gain_falls_with_training()


def _beside(evidence: Evidence) -> bool:
    return evidence.hold(*beside_claims(evidence.results))


def _one_temperature(evidence: Evidence) -> bool:
    """The best τ of each setting, which is nowhere near 1, is nearly that of any other."""
    results = evidence.results
    settings = four(paper_retrieval(results.scale))[:3]
    measured = [results.find(KNN(setting)) for setting in settings]
    best = [each.own_tau.temperature for each in measured if each is not None]
    tuned = ("own-tau-beats-tau-1-rescored", "own-tau-beats-tau-1-exact")
    return (
        len(best) == len(settings)
        and max(best) < _NEARLY * min(best)
        and evidence.hold(*tuned)
        and evidence.fail("tau-1-suits-the-index")
    )


def _a_further_lm(evidence: Evidence) -> bool:
    counts = range(2, len(evidence.results.scale.ruled_out.ensemble) + 1)
    beats = [f"neighbors-beat-lm-{count + 1}@calibrated" for count in counts]
    second = evidence.findings["second-lm-beats-neighbors@calibrated"].verdict
    return evidence.hold(*beats) and second in ("undecided", "does not hold")


_MESSAGES = {
    "ladder": Message("Neighbors help the LM, and help it as much once it is calibrated", _ladder),
    "reasons": Message(
        "With fitted temperatures, neither searching by att nor an index helps", _reasons
    ),
    "regimes-index": Message(
        "Approximate search beats exact search in no LM",
        lambda evidence: bool(evidence.regimes) and not evidence.lms_ahead("by_index"),
    ),
    "regimes-att": Message(
        "att beats ffn only in an LM that has barely been trained", _only_the_least_trained
    ),
    "regimes-gain": Message(
        "The narrower an LM is, or the less trained, the more neighbors help", _less_known
    ),
    "shares": Message(
        "In these LMs many votes gain more than the nearest ones",
        lambda evidence: evidence.hold(
            "all-entries-beat-the-nearest-att@calibrated",
            "all-entries-beat-the-nearest-ffn@calibrated",
        ),
    ),
    "beside": Message("Neighbors still help beside other LMs", _beside),
    "sizes": Message(
        "More entries help up to the end",
        lambda evidence: evidence.hold(
            "last-entries-help@own-tau", "last-entries-help-exact@own-tau"
        ),
    ),
    "temperatures": Message(
        "All settings have nearly the same best temperature here, far from τ = 1", _one_temperature
    ),
    "ensembles": Message("Neighbors are worth at least as much as a further LM", _a_further_lm),
}
_DRAWN = {
    "ladder": "One LM, alone and with neighbors",
    "reasons": "The effects behind the paper's three reasons",
    "regimes-index": "An index instead of exact search, in every LM",
    "regimes-att": "att instead of ffn, in every LM",
    "regimes-gain": "Neighbors, in every LM",
    "shares": "Shares of the neighbors' gain",
    "beside": "Neighbors beside other LMs",
    "sizes": "The size of the datastore",
    "temperatures": "Perplexity against the retrieval temperature",
    "ensembles": "Several LMs, with and without neighbors",
}
FIGURES = tuple(_DRAWN)
"""The names of all figures."""


def beside_claims(results: Results) -> dict[str, str]:
    """Claims that neighbors help beside other LMs, with what the others are."""
    counts = range(2, len(results.scale.ruled_out.ensemble) + 2)
    return {
        "neighbors-help-1-lm@calibrated": "on top of the LM alone",
        **{f"neighbors-help-{n}-lms@calibrated": f"of {n} LMs mixed" for n in counts},
        "neighbors-help-beside-memory@calibrated": "of the LM and one that memorizes",
    }


def message(evidence: Evidence, figure: str) -> str | None:
    """What a figure of the laptop scale says; None where its results do not say so."""
    said = _MESSAGES[figure]
    return said.text if evidence.results.scale.name == "laptop" and said.holds(evidence) else None


def title(evidence: Evidence, figure: str) -> str:
    """The title of a figure."""
    return message(evidence, figure) or _DRAWN[figure]
