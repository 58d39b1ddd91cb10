"""A report as plain data: a document of sections of blocks.

The demo's page and the paper's results are documents of this one model. `terminal`, `markdown` and
`html` render it; nothing here knows how a block looks.

All text is plain and is escaped by the renderers, except that of a `Paragraph`, which may hold
`code`, **strong** and *emphasized* spans.
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from knnlm.evaluation import ExplainedToken

Kind = Literal["number", "word", "sentence"]
"""What a column holds: numbers align right, words do not wrap, sentences do."""
Tone = Literal["", "good", "bad", "open"]
"""How a verdict is colored; "" is no verdict."""
Style = Literal["", "code", "strong", "emphasis"]

_MARKS = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\*(.+?)\*")
_LONG = 36  # characters; an effect with its interval is shorter


class Span(NamedTuple):
    """A run of characters in one style."""

    text: str
    style: Style = ""


@dataclass(frozen=True)
class Paragraph:
    """Prose written for the report, with `code`, **strong** and *emphasized* spans.

    Use a plain string for text that comes from outside: its characters mean nothing.
    """

    text: str

    def spans(self) -> list[Span]:
        """The text without its marks, in runs of one style."""
        styles: tuple[Style, ...] = ("code", "strong", "emphasis")
        spans, end = [], 0
        for match in _MARKS.finditer(self.text):
            spans.append(Span(self.text[end : match.start()]))
            marked = zip(match.groups(), styles, strict=True)
            spans += [Span(text, style) for text, style in marked if text]
            end = match.end()
        spans.append(Span(self.text[end:]))
        return [span for span in spans if span.text]


class Cell(NamedTuple):
    """The text of one cell, a smaller note that belongs to it, and its tone if it is a verdict."""

    text: str
    note: str = ""
    tone: Tone = ""

    def line(self) -> str:
        """Text and note on one line: `−15.0 % (−16.1 to −13.8 %)`."""
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its heading.
        kind: What it holds; None to infer it from the cells.
        help: One sentence that explains it.
        group: A heading shared with the adjacent columns of the same group.
        brief: Whether it is one of the columns that a terminal has room for.
    """

    name: str
    kind: Kind | None = None
    help: str = ""
    group: str = ""
    brief: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; `best` is the row to highlight, `note` stands below."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    best: int | None = None

    def kinds(self) -> list[Kind]:
        """What each column holds."""
        return [column.kind or self._inferred(i) for i, column in enumerate(self.columns)]

    def _inferred(self, index: int) -> Kind:
        """The first column holds names; elsewhere the length and the digits of the cells tell."""
        texts = [row[index].line() for row in self.rows]
        if index == 0 or any(len(text) > _LONG for text in texts):
            return "sentence"
        has_digits = any(c.isdigit() or c == "∞" for text in texts for c in text)
        return "number" if has_digits else "word"


@dataclass(frozen=True)
class Figure:
    """An SVG drawing (see `svg.drawing`) with a caption.

    Attributes:
        name: Of its file, without the suffix.
        caption: What it shows.
        svg: The drawing.
        lead: The words that open the caption, emphasized.
        half_width: Whether it may stand beside an adjacent figure of half width.
    """

    name: str
    caption: str
    svg: str
    lead: str = ""
    half_width: bool = False


class Definition(NamedTuple):
    """A term and its meaning."""

    term: str
    meaning: str


@dataclass(frozen=True)
class DefinitionList:
    """Terms with their meanings: facts, or what the columns of a table mean.

    Attributes:
        entries: In the order in which they are shown.
        folded: If not empty, a page shows only these words until they are clicked.
    """

    entries: tuple[Definition, ...]
    folded: str = ""


@dataclass(frozen=True)
class Equation:
    """A formula and the meaning of its symbols; `p_LM` stands for p with a subscript."""

    formula: str
    symbols: tuple[Definition, ...] = ()


@dataclass(frozen=True)
class Commands:
    """Shell commands, one on each line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class TokenView:
    """An explained text: tokens colored by what retrieval changed, with their neighbors."""

    tokens: tuple[ExplainedToken, ...]


Block = str | Paragraph | Table | Figure | DefinitionList | Equation | Commands | TokenView
"""A string is a paragraph of plain text."""


@dataclass(frozen=True)
class Section:
    """A heading and the blocks under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: What it is.
        sections: Its parts.
        headline: The main result in one sentence, if there is one.
        introduction: Blocks before the first section.
        command: The command that made the report, if it is to be shown.
    """

    title: str
    sections: tuple[Section, ...]
    headline: str = ""
    introduction: tuple[Block, ...] = ()
    command: str = ""


def text_table(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], note: str = ""
) -> Table:
    """A table of plain text: column kinds are inferred.

    Example:
        >>> text_table(("model", "perplexity"), (("gpt2", "29.94"),)).kinds()
        ['sentence', 'number']
    """
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return Table(tuple(Column(name) for name in columns), cells, note)
