from dataclasses import replace

import pytest

from knnlm.report import markdown
from knnlm.report.demo import document
from knnlm.report.document import (
    Cell,
    Column,
    Commands,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    text_table,
)

from . import sample


def test_the_whole_demo_is_rendered() -> None:
    text = markdown.render(document(sample.results()))
    assert text.startswith("# knnlm demo\n\n**Retrieval lowered perplexity")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0] == "## Every condition"
    assert headings[-1] == "## What to try next"
    assert "(figures/lambda.svg)" in text
    assert text.endswith("Made by `knnlm demo --out demo`.\n")


def test_the_best_row_is_bold_and_numbers_align_right() -> None:
    columns = (Column("name", "word"), Column("value", "number"))
    rows = ((Cell("a"), Cell("1", "0 to 2")), (Cell("b"), Cell("")))
    assert markdown.table(Table(columns, rows, best=0)).splitlines() == [
        "| name | value |",
        "|---|---:|",
        "| **a** | **1 (0 to 2)** |",
        "| b |  |",
    ]


def test_verdicts_are_bold() -> None:
    table = Table((Column("verdict"),), ((Cell("holds", tone="good"),),))
    assert "| **holds** |" in markdown.table(table)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a*b*", r"a\*b\*"),
        ("<b>", r"\<b>"),
        ("[x](y)", r"\[x\](y)"),
        ("snake_case _emphasis_", r"snake_case \_emphasis\_"),
        ("`x` \\", r"\`x\` \\"),
        ("&amp; & &#42;", r"\&amp; & \&#42;"),
        ("plain, 95 % (−1 to 2)", "plain, 95 % (−1 to 2)"),
    ],
)
def test_plain_text_is_no_markup(text: str, escaped: str) -> None:
    assert markdown.escape(text) == escaped


def test_prose_keeps_its_marks_and_strings_do_not() -> None:
    section = Section("S", (Paragraph("**bold**"), "**plain**"))
    assert markdown.render_sections([section], "figures", "###") == (
        "### S\n\n**bold**\n\n\\*\\*plain\\*\\*\n"
    )


def test_cells_cannot_end_a_row() -> None:
    lines = markdown.table(text_table(("a", "b"), (("x|y", "1\n2"),))).splitlines()
    assert lines[2] == r"| x\|y | 1 2 |"


def test_a_fence_is_longer_than_any_within() -> None:
    text = markdown.render(Document("t", (Section("s", (Commands(("echo ```",)),)),)))
    assert "````sh\necho ```\n````" in text


def test_a_command_with_backticks_is_one_code_span() -> None:
    assert "Made by ``echo `date` now``." in markdown.render(
        Document("t", (), command="echo `date` now")
    )


def test_figures_are_linked_from_their_folder() -> None:
    section = Section("s", (Figure("plot", "What it shows.", "<svg/>"),))
    text = markdown.render_sections([section], "img")
    assert "![What it shows.](img/plot.svg)\n\n*What it shows.*" in text


def test_hostile_text_opens_no_tag() -> None:
    results = replace(sample.hostile_results(), commands=(), passage=None)
    text = markdown.render(document(replace(results, command="knnlm demo")))
    assert text.replace(r"\<", "").count("<") == 0
