"""The numbers that a Markdown report prints, in groups that belong together."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import Literal, NamedTuple

_NAMES = re.compile(
    r"`[^`]*`|\]\(.*?\)|95 %|τ = 1\b|\(2023\)|\b(?:section|appendix|Table|width) [A-Z]?[\d.]+"
    r"|(?:\de-\d+|0\.000\d+):"
)
_NUMBER = re.compile(
    r"(?<![\w.\-−/])([+\-−]?)((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(e[+-]\d+)?(M\b| %| million|%)?"
    r"(?![\w\-]|\.\d)"
)
_BETWEEN_PHRASES = re.compile(r"(?<=\))|(?<=[.;:,]) (?![^()]*\))")


class Number(NamedTuple):
    """A number as it was printed, with half a unit in its last place."""

    text: str
    value: float
    half: float

    def among(self, ordered: Sequence[float]) -> slice:
        """Those of some ordered values that would be printed like this."""
        low, high = (self.value + side * self.half * (1 + 1e-6) for side in (-1, 1))
        return slice(bisect_left(ordered, low), bisect_right(ordered, high))

    def is_about(self, value: float) -> bool:
        """Whether a value would be printed like this."""
        return bool([value][self.among([value])])

    def moved(self) -> "Number":
        """Three units in the last place away."""
        return self._replace(value=self.value + 6 * self.half)


Numbers = tuple[Number, ...]


class Unit(NamedTuple):
    """A claim, another row of a table, its cells about the paper, or a part of a sentence."""

    section: str
    kind: Literal["claim", "row", "paper", "text"]
    text: str
    groups: tuple[Numbers, ...]
    """An effect with its interval is one group, and so are all numbers of a claim."""

    @property
    def numbers(self) -> Numbers:
        """All of them."""
        return tuple(chain(*self.groups))

    def moved(self, place: int) -> "Unit":
        """The same with one of its numbers moved."""
        places = count()
        groups = (
            tuple(each.moved() if next(places) == place else each for each in group)
            for group in self.groups
        )
        return self._replace(groups=tuple(groups))


def numbers_in(text: str) -> Numbers:
    """Every number of a text but those in names; percent as shares, also in `121 % (95 to 152)`."""
    text = _NAMES.sub(" ", text.replace("\u00a0", " "))
    found = []
    for match in _NUMBER.finditer(text):
        sign, digits, exponent, unit = (part or "" for part in match.groups())
        inside = re.search(r"% \([^()%]*$", text[: match.start()]) is not None
        size = float(f"1{exponent or 'e0'}") * (1e6 if unit in ("M", " million") else 1.0)
        size *= 0.01 if inside or "%" in unit else 1.0
        value = float(digits.replace(",", "")) * (-1 if sign in ("-", "−") else 1)
        half = 0.5 * 10.0 ** -len(digits.partition(".")[2])
        found.append(Number(match[0].strip(), value * size, half * size))
    return tuple(found)


def groups_in(text: str) -> Iterator[Numbers]:
    """Effects with their intervals, and all other numbers alone."""
    for phrase in _BETWEEN_PHRASES.split(text):
        numbers = numbers_in(phrase)
        interval = len(numbers) > 2 and re.search(r"\(.* to ", phrase) is not None
        alone = len(numbers) - 3 - ("; paper" in phrase) if interval else len(numbers)
        yield from ((number,) for number in numbers[:alone])
        if interval and "points" in phrase:  # drawn the other way round, in percent
            value, low, high = (
                n._replace(value=-n.value / 100, half=n.half / 100) for n in numbers
            )
            yield value, high, low
        elif interval:
            yield numbers[alone:]


def units_in(markdown: str) -> Iterator[Unit]:
    """Everything of a report that may have numbers; captions once, names of rows not at all."""
    section = ""
    header: list[str] = []
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif not line.startswith("|"):
            header = []
            for phrase in [] if line.startswith("![") else _BETWEEN_PHRASES.split(line):
                yield Unit(section, "text", phrase, tuple(groups_in(phrase)))
        elif not header:
            header = cells
        elif header[0] == "claim":
            yield Unit(section, "claim", line, (tuple(chain(*map(numbers_in, cells[1:-1]))),))
        else:
            text = f"| {' | '.join(header)} |\n{line}"
            named = [(cell, "paper" in name) for cell, name in zip(cells, header, strict=True)][1:]
            ours, theirs = ([cell for cell, its in named if its == of] for of in (False, True))
            yield Unit(section, "row", text, tuple(chain(*map(groups_in, ours))))
            yield Unit(section, "paper", text, tuple(chain(*map(groups_in, theirs))))
