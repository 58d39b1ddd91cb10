"""Documents in a terminal, with rich: cells and prose are `Text`, so nothing is read as markup."""

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from knnlm.formats import printable
from knnlm.report import explained
from knnlm.report.document import (
    Block,
    Cell,
    Commands,
    Definition,
    DefinitionList,
    Document,
    Equation,
    Figure,
    Paragraph,
    Style,
    Table,
    TokenView,
    Tone,
)

_STYLES: dict[Style, str] = {"": "", "code": "cyan", "strong": "bold", "emphasis": "italic"}
_TONES: dict[Tone, str] = {"": "", "good": "bold green", "bad": "bold red", "open": "bold"}


def render(document: Document) -> Group:
    """The whole document, to be printed by a rich `Console`; figures are only named."""
    parts: list[RenderableType] = [_text(document.title, "bold")]
    parts += [Text(""), _text(document.headline, "bold green")] if document.headline else []
    parts += _blocks(document.introduction)
    for section in document.sections:
        parts += [Text(""), _text(section.title, "bold underline"), *_blocks(section.blocks)]
    return Group(*parts)


def table(content: Table, title: str = "") -> RichTable:
    """A table with the best row marked.

    Columns marked `brief` are shown alone and without the notes of their cells, if there are any.
    """
    brief = any(column.brief for column in content.columns)
    shown = [i for i, column in enumerate(content.columns) if column.brief or not brief]
    kinds = content.kinds()
    result = RichTable(
        title=_text(title) if title else None,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=_text(content.note) if content.note else None,
    )
    if content.best is not None:
        result.add_column(Text(""), no_wrap=True)
    for i in shown:
        number = kinds[i] == "number"
        result.add_column(
            _text(content.columns[i].name),
            justify="right" if number else "left",
            no_wrap=number,  # a long name folds, a number does not
            overflow="fold",
        )
    for index, row in enumerate(content.rows):
        cells = [_cell(row[i], notes=not brief) for i in shown]
        best = index == content.best
        mark = [Text("▸" if best else " ")] if content.best is not None else []
        result.add_row(*mark, *cells, style="bold green" if best else None)
    return result


def _blocks(blocks: tuple[Block, ...]) -> list[RenderableType]:
    """Blocks with an empty line before each; folded lists are left out."""
    shown = [b for b in blocks if not (isinstance(b, DefinitionList) and b.folded)]
    return [part for block in shown for part in (Text(""), _block(block))]


def _block(block: Block) -> RenderableType:
    match block:
        case str():
            return _text(block)
        case Paragraph():
            return Text.assemble(*((printable(s.text), _STYLES[s.style]) for s in block.spans()))
        case Table():
            return table(block)
        case Figure():
            return _text(f"Figure {block.name}: {block.lead} {block.caption}".replace("  ", " "))
        case DefinitionList(entries):
            return _definitions(entries)
        case Equation(formula, symbols):
            return Group(Padding(_text(formula, "bold"), (0, 4)), _definitions(symbols))
        case Commands(lines):
            return Group(*(_text(f"  {line}") for line in lines))
        case TokenView(tokens):
            return Group(*(Text(line) for line in explained.token_lines(tokens)))


def _definitions(entries: tuple[Definition, ...]) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in entries:
        grid.add_row(_text(entry.term, "bold"), _text(entry.meaning))
    return grid


def _cell(cell: Cell, notes: bool) -> Text:
    return _text(cell.line() if notes else cell.text, _TONES[cell.tone])


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
