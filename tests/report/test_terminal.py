import math
from dataclasses import replace

from rich.console import Console

from knnlm.report import words
from knnlm.report.content import Page
from knnlm.report.terminal import summary, table

from . import sample


def printed(page: Page, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table(page))
    return capture.get()


def test_all_rows_fit_eighty_columns_uncut() -> None:
    lines = printed(sample.page()).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if "41.27" in line]
    assert len(rows) == 8
    assert not any("…" in line for line in lines)
    for row, line in zip(sample.rows(), rows, strict=True):
        assert all(
            part in line for part in (row.key, row.metric, row.mask, f"{row.interp_ppl:.2f}")
        )


def test_only_the_best_row_is_marked() -> None:
    marked = [line for line in printed(sample.page()).splitlines() if "▸" in line]
    assert len(marked) == 1
    assert "33.14" in marked[0]


def test_text_from_outside_is_not_markup() -> None:
    page = replace(sample.page(), title="[red]t[/nonsense]", rows=(sample.row(mask="[bold]x"),))
    text = printed(page, 120)
    assert "[red]t[/nonsense]" in text
    assert "[bold]x" in text


def test_summary_is_the_headline_of_the_page() -> None:
    page = sample.page()
    text = summary(page)
    assert text.startswith(words.headline(page))
    assert "48,213 tokens" in text
    assert "best of 8 settings on the validation text: key att, metric l2, exact search" in text


def test_an_empty_page_still_prints() -> None:
    empty = replace(sample.page(), rows=())
    assert "No retrieval setting was measured." in summary(empty)
    assert "knnlm demo" in printed(empty)


def test_infinite_results_print() -> None:
    row = sample.row(interp=math.inf)._replace(ratio_ci95=(math.inf, math.inf))
    assert "∞" in printed(replace(sample.page(), rows=(row,)))
