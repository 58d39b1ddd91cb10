"""Findings → sentences. Each sentence says what the numbers say, whatever they say; none is written
for one outcome."""

from collections.abc import Sequence

from knnlm_paper.findings import Finding
from knnlm_paper.report.formats import effect

BEYOND = "beyond"


def counts(found: Sequence[Finding]) -> str:
    """How many of each verdict; checks that the paper did not make, beside its own, by
    themselves."""
    total = [f for f in found if f.verdict not in ("not measured", "no question")]
    ours = [f for f in total if f.claim.where == BEYOND]
    theirs = _counted([f for f in total if f.claim.where != BEYOND], "checks")
    return theirs + (
        " " + _counted(ours, f"that the paper did not make ({BEYOND})") if ours else ""
    )


def _counted(found: Sequence[Finding], what: str) -> str:
    parts = [
        f"{sum(f.verdict == v for f in found)} {w}"
        for v, w in (
            ("holds", "hold"),
            ("does not hold", "do not hold"),
            ("undecided", "are undecided"),
        )
    ]
    return f"Of {len(found)} {what} {parts[0]}, {parts[1]}, {parts[2]}."


def outcome(f: Finding) -> str:
    """The verdict, and of what does not hold, why: an effect that is there may be too small to
    count, or reversed."""
    if f.verdict == "does not hold" and f.claim.sense == "more":
        return f.verdict + (
            ": too small to count" if f.low > 0 else ": reversed" if f.high < 0 else ""
        )
    return f.verdict


def numbers(f: Finding, paper: bool = True) -> str:
    """Effect and interval, and the paper's effect."""
    unit = f.claim.unit
    theirs = f"; paper {effect(f.claim.paper, unit)}" if paper and f.claim.paper is not None else ""
    return f"{effect(f.effect, unit)} ({effect(f.low, unit)} to {effect(f.high, unit)}{theirs})"


def reading(shared: str, tuned: str) -> str:
    """What becomes of a conclusion drawn at one τ once every arm has its own."""
    if tuned == "holds":
        return "survives" if shared == "holds" else "appears only at tuned τ"
    if shared == "holds":
        return (
            "explained by the temperature" if tuned == "does not hold" else "open once τ is tuned"
        )
    return "not seen here" if "undecided" not in (shared, tuned) else "undecided here"
