"""The report in a terminal: the table's main columns and the headline.

Same words and digits as the page; cells are rich `Text`, so no text from outside is read as markup.
"""

from rich import box
from rich.table import Table
from rich.text import Text

from knnlm.report import columns, words
from knnlm.report.content import Page


def table(page: Page) -> Table:
    """The main columns, one line for each setting, the best one marked."""
    shown = [column for column in columns.columns() if column.brief]
    result = Table(
        title=Text(page.title), box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    result.add_column(Text(""), no_wrap=True)
    for column in shown:
        result.add_column(
            Text(column.name),
            justify="right" if column.numeric else "left",
            no_wrap=column.name
            != "Search",  # an index may have a long name: it folds, numbers do not
            overflow="fold",
        )
    best = words.best(page)
    for place, row in enumerate(page.rows):
        cells = [Text(column.cell(row).text) for column in shown]
        mark = Text("▸" if place == best else " ")
        result.add_row(mark, *cells, style="bold green" if place == best else None)
    return result


def summary(page: Page) -> str:
    """The headline and what it rests on, as plain text."""
    return f"{words.headline(page)}\n{words.circumstances(page)}"
