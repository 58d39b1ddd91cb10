"""How findings are written: changes of perplexity, minus is better, and verdicts."""

import math
from typing import Literal

from knnlm.formats import NBSP, signed
from knnlm.report.document import Cell, Tone
from knnlm_paper.claims import Change, Finding

TONES: dict[str, Tone] = {
    "holds": "good",
    "does not hold": "bad",
    "undecided": "open",
    "no question": "open",
    "not measured": "open",
}


Unit = Literal["word", "token"]
"""What perplexity is per."""


def percent(value: float, digits: int = 1) -> str:
    """A share as a signed percentage, with a real minus."""
    return f"{signed(100 * value, digits)}{NBSP}%"


def interval(change: Change, digits: int = 1) -> str:
    """Both ends of an interval, as in `−1.2 to +0.3 %`."""
    low, high = (signed(100 * end, digits) for end in (change.low, change.high))
    return f"{low} to {high}{NBSP}%"


def with_interval(change: Change, digits: int = 1) -> str:
    """A change with its interval, as in `−6.3 % (−7.5 to −5.2 %)`."""
    return f"{percent(change.value, digits)} ({interval(change, digits)})"


def change_cell(finding: Finding | None, per: Unit = "word") -> Cell:
    """The change of perplexity that a finding is, or its slope; empty where it was not measured."""
    if finding is None or math.isnan(finding.effect):
        return Cell("")
    if finding.claim.unit in ("difference", "share"):
        plain = Change(finding.effect, finding.low, finding.high)
        return Cell(percent(plain.value), interval(plain))
    if finding.claim.unit == "slope":
        ends = f"{signed(finding.low, 4)} to {signed(finding.high, 4)}"
        return Cell(signed(finding.effect, 4), ends)
    change = finding.per_word if per == "word" else finding.per_token
    return Cell(percent(change.value), interval(change))


def verdict_cell(finding: Finding) -> Cell:
    """A verdict in its color."""
    return Cell(finding.verdict, tone=TONES[finding.verdict])


def paper_change(effect: float | None) -> str:
    """The paper's effect as a change of perplexity per word; empty where it prints none."""
    return "" if effect is None else percent(1 / (1 + effect) - 1)
