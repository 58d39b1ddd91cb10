"""Findings → sentences. Each sentence says what the numbers say, whatever they say; none is written for one outcome."""

from collections.abc import Mapping, Sequence

from knnlm.paper.claims import FIELDS
from knnlm.paper.findings import Finding
from knnlm.paper.present.content import interval, percent

_VERB = {
    "holds": "holds", "does not hold": "does not hold", "undecided": "is undecided", "no question": "is no question",
    "not measured": "",
}  # fmt: skip


def counts(found: Sequence[Finding]) -> str:
    """How many of each verdict."""
    total = [f for f in found if f.verdict not in ("not measured", "no question")]
    parts = [f"{sum(f.verdict == v for f in total)} {w}" for v, w in
             (("holds", "hold"), ("does not hold", "do not hold"), ("undecided", "are undecided"))]  # fmt: skip
    return f"Of {len(total)} checks {parts[0]}, {parts[1]}, {parts[2]}."


def numbers(f: Finding) -> str:
    """Effect and interval."""
    theirs = f"; paper {percent(f.claim.paper)}" if f.claim.paper is not None else ""
    return f"{percent(f.effect)} ({interval(f.low, f.high)}{theirs})"


def at_each_tau(found: Mapping[str, Finding], name: str, subject: str) -> str | None:
    """A claim at τ = 1, at one τ for all arms, and with each arm at its own, in one sentence."""
    parts = []
    for words in FIELDS.values():
        f = found.get(f"{name} ({words})")
        if f is None or f.verdict == "not measured":
            return None
        parts.append(f"{words}: {_VERB[f.verdict]}, {numbers(f)}")
    return f"{subject}. " + "; ".join(parts) + "."


def reading(shared: str, tuned: str) -> str:
    """What becomes of a conclusion drawn at one τ once every arm has its own."""
    if tuned == "holds":
        return "survives" if shared == "holds" else "appears only at tuned τ"
    if shared == "holds":
        return "explained by the temperature" if tuned == "does not hold" else "open once τ is tuned"
    return "not seen here" if "undecided" not in (shared, tuned) else "undecided here"


def single(found: Mapping[str, Finding], name: str) -> str | None:
    """One claim in one sentence."""
    f = found.get(name)
    if f is None or f.verdict == "not measured":
        return None
    return f"“{f.claim.name}” {_VERB[f.verdict]}: {numbers(f)}."
