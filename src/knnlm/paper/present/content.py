"""The content of a report, before it is Markdown or HTML: sections of paragraphs, tables and
figures. Plain data."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from knnlm.report.formats import NBSP, signed

Kind = Literal["sentences", "words", "numbers"]
_LONG = 36  # characters; effects with their intervals are shorter


class Table(NamedTuple):
    """Cells as text. The first column holds names, the others numbers or words."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def kinds(self) -> list[Kind]:
        """What each column holds: sentences, single words (such as verdicts) or numbers."""
        return [self._kind(place) for place in range(len(self.columns))]

    def _kind(self, place: int) -> Kind:
        cells = [row[place] for row in self.rows]
        if place == 0 or any(len(cell) > _LONG for cell in cells):
            return "sentences"
        return (
            "numbers" if any(c.isdigit() or c == "∞" for cell in cells for c in cell) else "words"
        )


class Figure(NamedTuple):
    """An SVG drawing with a caption that says what it shows; `name` is its file's."""

    name: str
    caption: str
    svg: str


Part = str | Table | Figure
"""A string is a paragraph."""


class Section(NamedTuple):
    """A heading and what stands under it."""

    title: str
    parts: Sequence[Part]


def percent(value: float, digits: int = 1) -> str:
    """A share as a signed percentage, with a real minus."""
    return f"{signed(100 * value, digits)}{NBSP}%"


def interval(low: float, high: float, digits: int = 1) -> str:
    """Both ends of an interval of shares."""
    return f"{percent(low, digits)} to {percent(high, digits)}"


def effect(value: float, unit: str) -> str:
    """A share as a percentage, a slope as a number."""
    return percent(value) if unit == "%" else signed(value, 4)


def number(value: float | None, digits: int = 2) -> str:
    """A number, or ∞ where JSON has null."""
    return "∞" if value is None else f"{value:,.{digits}f}"
