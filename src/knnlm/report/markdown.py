"""Documents as Markdown."""

import re
from collections.abc import Sequence

from knnlm.report import explained
from knnlm.report.document import (
    Block,
    Cell,
    Commands,
    DefinitionList,
    Document,
    Equation,
    Figure,
    Paragraph,
    Section,
    Table,
    TokenView,
)

# characters that would be read as markup; an underscore within a word is not
_SPECIAL = re.compile(r"[\\`*<\[\]]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_BACKTICKS = re.compile("`+")


def render(document: Document, figures: str = "figures") -> str:
    """The whole file; figures are linked from the folder `figures`."""
    blocks = [f"# {escape(document.title)}"]
    blocks += [f"**{escape(document.headline)}**"] if document.headline else []
    blocks += [_block(block, figures) for block in document.introduction]
    blocks += [render_sections(document.sections, figures).rstrip("\n")]
    blocks += [f"Made by {_code(document.command)}."] if document.command else []
    return "\n\n".join(blocks) + "\n"


def render_sections(sections: Sequence[Section], figures: str, heading: str = "##") -> str:
    """Sections alone, to be placed in another file, under headings of that level."""
    parts: list[str] = []
    for section in sections:
        parts.append(f"{heading} {escape(section.title)}")
        parts += [_block(block, figures) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def table(content: Table) -> str:
    """A table without its note; the best row is bold."""
    rules = ("---:" if kind == "number" else "---" for kind in content.kinds())
    lines = [_row([column.name for column in content.columns]), f"|{'|'.join(rules)}|"]
    for index, row in enumerate(content.rows):
        lines.append(_row([_cell(cell, index == content.best) for cell in row]))
    return "\n".join(lines)


def escape(text: str) -> str:
    """Plain text in which no character is read as markup."""
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


def _block(block: Block, figures: str) -> str:
    match block:
        case str():
            return escape(block)
        case Paragraph(text):
            return text
        case Table():
            return table(block) + (f"\n\n{escape(block.note)}" if block.note else "")
        case Figure():
            return _figure(block, figures)
        case DefinitionList(entries):
            return "\n".join(f"- **{escape(e.term)}**: {escape(e.meaning)}" for e in entries)
        case Equation(formula, symbols):
            meanings = [f"- {_code(symbol.term)}: {escape(symbol.meaning)}" for symbol in symbols]
            return "\n".join([_fenced([formula], "text"), *(["", *meanings] if meanings else [])])
        case Commands(lines):
            return _fenced(lines, "sh")
        case TokenView(tokens):
            return _fenced(explained.token_lines(tokens), "text")


def _figure(figure: Figure, folder: str) -> str:
    caption = escape(figure.caption)
    lead = f"**{escape(figure.lead)}** " if figure.lead else ""
    return f"![{caption}]({folder}/{figure.name}.svg)\n\n{lead}*{caption}*"


def _cell(cell: Cell, best: bool) -> str:
    text = escape(cell.line())
    return f"**{text}**" if text and (best or cell.tone) else text


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(re.sub(r"\s*\n\s*", " ", c).replace("|", "\\|") for c in cells) + " |"


def _code(text: str) -> str:
    """A code span, fenced by more backticks than it holds."""
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _fenced(lines: Sequence[str], language: str) -> str:
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])
