"""The document model: kinds of columns, spans of prose, and documents without any of it."""

from knnlm.report import html, markdown, terminal
from knnlm.report.document import (
    Cell,
    Column,
    Document,
    Paragraph,
    Span,
    Table,
    text_table,
)


def test_kinds_are_inferred_from_the_cells() -> None:
    rows = (
        ("gpt2", "29.94", "yes", "a sentence that is longer than an effect with its interval"),
        ("opt", "∞", "no", ""),
    )
    table = text_table(("model", "perplexity", "open", "remark"), rows)
    assert table.kinds() == ["sentence", "number", "word", "sentence"]


def test_a_kind_that_is_given_is_kept() -> None:
    table = Table((Column("n", "number"), Column("m", "word")), ((Cell("a"), Cell("1")),))
    assert table.kinds() == ["number", "word"]


def test_a_cell_on_one_line_holds_its_note() -> None:
    assert Cell("−15 %", "−16 to −14 %").line() == "−15 % (−16 to −14 %)"
    assert Cell("12").line() == "12"


def test_marks_become_spans() -> None:
    spans = Paragraph("Run `knnlm *` for **the answer**, *not* a guess.").spans()
    assert spans == [
        Span("Run "),
        Span("knnlm *", "code"),
        Span(" for "),
        Span("the answer", "strong"),
        Span(", "),
        Span("not", "emphasis"),
        Span(" a guess."),
    ]
    assert Paragraph("").spans() == []


def test_an_empty_document_is_rendered_by_all() -> None:
    empty = Document("Nothing", ())
    assert "<h1>Nothing</h1>" in html.render(empty)
    assert markdown.render(empty).startswith("# Nothing\n")
    assert terminal.render(empty).renderables
