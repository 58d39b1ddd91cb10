"""How the paper's report writes numbers, and its tables and sections from plain strings."""

import math
import re
from collections.abc import Sequence

from knnlm.formats import NBSP, signed
from knnlm.report.document import Block, Cell, Column, Paragraph, Section, Table, Tone

_VERDICT = re.compile(r"\*\*(.+?)\*\*")
_INTERVAL = re.compile(r"(.*) \(([^()]+ to [^()]+)\)", re.DOTALL)
_TONES: dict[str, Tone] = {
    "holds": "good",
    "does not hold": "bad",
    "undecided": "open",
    "no question": "open",
    "ruled out": "good",
    "not ruled out": "bad",
    "a part at most": "open",
    "not measured": "open",
    "gone without it": "bad",
    "there without it": "good",
    "pushes that way": "bad",
    "does not": "good",
}


def section(title: str, blocks: Sequence[Block]) -> Section:
    """A section; strings are paragraphs with `code`, **strong** and *emphasized* spans."""
    return Section(title, tuple(Paragraph(b) if isinstance(b, str) else b for b in blocks))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Table:
    """A table of strings, each read by `make_cell`; the kinds of the columns are inferred."""
    return Table(tuple(Column(name) for name in columns), tuple(map(make_row, rows)), note)


def make_row(texts: Sequence[str]) -> tuple[Cell, ...]:
    """The cells of one row."""
    return tuple(map(make_cell, texts))


def make_cell(text: str) -> Cell:
    """`**verdict**` is a verdict with its tone; an interval at the end becomes the cell's note."""
    if verdict := _VERDICT.fullmatch(text):
        return Cell(verdict[1], tone=_TONES[verdict[1].partition(":")[0]])
    if effect_and_interval := _INTERVAL.fullmatch(text):
        return Cell(effect_and_interval[1], effect_and_interval[2])
    return Cell(text)


def percent(value: float, digits: int = 1) -> str:
    """A share as a signed percentage, with a real minus."""
    return f"{signed(100 * value, digits)}{NBSP}%"


def interval(low: float, high: float, digits: int = 1) -> str:
    """Both ends of an interval of shares."""
    return f"{percent(low, digits)} to {percent(high, digits)}"


def effect(value: float, unit: str) -> str:
    """A share as a percentage, a slope as a number."""
    return percent(value) if unit == "%" else signed(value, 4)


def number(value: float, digits: int = 2) -> str:
    """A number, or ∞."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else "∞"
