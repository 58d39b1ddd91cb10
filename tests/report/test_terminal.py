import math
from dataclasses import replace

from rich.console import Console

from knnlm.report import sentences, terminal
from knnlm.report.demo import document, results_table, summary
from knnlm.report.document import Cell, Column, Table
from knnlm.report.results import DemoResults

from . import sample


def printed(results: DemoResults, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(terminal.table(results_table(results), results.title))
    return capture.get()


def test_all_rows_fit_eighty_columns_uncut() -> None:
    lines = printed(sample.results()).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if "41.27" in line]
    assert len(rows) == 8
    assert not any("…" in line for line in lines)
    for row, line in zip(sample.conditions(), rows, strict=True):
        assert all(
            part in line for part in (row.key, row.metric, row.search, f"{row.interp_ppl:.2f}")
        )


def test_only_the_best_row_is_marked() -> None:
    marked = [line for line in printed(sample.results()).splitlines() if "▸" in line]
    assert len(marked) == 1
    assert "33.14" in marked[0]


def test_text_from_outside_is_not_markup() -> None:
    results = replace(
        sample.results(),
        title="[red]t[/nonsense]",
        conditions=(sample.condition(search="[bold]x"),),
    )
    text = printed(results, 120)
    assert "[red]t[/nonsense]" in text
    assert "[bold]x" in text


def test_summary_is_the_headline_of_the_report() -> None:
    results = sample.results()
    text = summary(results)
    assert text.startswith(sentences.headline(results))
    assert "48,213 tokens" in text
    assert "best of 8 conditions on the validation text: key att, metric l2, exact search" in text


def test_an_empty_report_still_prints() -> None:
    empty = replace(sample.results(), conditions=())
    assert "No retrieval condition was measured." in summary(empty)
    assert "knnlm demo" in printed(empty)


def test_infinite_results_print() -> None:
    row = replace(sample.condition(interp=math.inf), ratio_ci95=(math.inf, math.inf))
    assert "∞" in printed(replace(sample.results(), conditions=(row,)))


def test_the_whole_demo_is_printed() -> None:
    results = sample.results()
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(terminal.render(document(results)))
    text = capture.get()
    for shown in ("P = (1 − λ) · p_LM + λ · p_kNN", "Every condition", *results.commands):
        assert shown in text
    assert "What the columns mean" not in text


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    results = replace(sample.results(), title="\x1b[2Jt", facts=(("a\x07", "\x9b31m"),))
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(terminal.render(document(results)))
    assert not {"\x1b", "\x07", "\x9b"} & set(capture.get())


def test_verdicts_and_notes_are_shown_where_no_column_is_brief() -> None:
    content = Table((Column("claim"), Column("e")), ((Cell("holds", tone="good"), Cell("1", "2")),))
    console = Console(width=60, color_system=None)
    with console.capture() as capture:
        console.print(terminal.table(content))
    assert "holds" in capture.get()
    assert "1 (2)" in capture.get()
