"""HTML fragments for notebooks: inline styles, no script, and nothing that hostile text can do."""

import math

import pytest

from knnlm.evaluation.explanation import ExplainedToken, RetrievedNeighbor
from knnlm.report.demo import results_table
from knnlm.report.document import Cell, Column, Table, text_table
from knnlm.report.html import explanation_fragment, table_fragment

from . import sample
from .reading import Reader, read

RIGHT_TO_LEFT = "שלום עולם"
STEERING = "\N{RIGHT-TO-LEFT OVERRIDE}evil\N{POP DIRECTIONAL FORMATTING}"
CONTROL = "\x00\x07\x1b[31m\x7f\x85"
TEXTS = [sample.HOSTILE, '" onmouseover="alert(1)', "{{ 7 * 7 }}{% raw %}", RIGHT_TO_LEFT]


def token(text: str, gain: float = 1.0) -> ExplainedToken:
    neighbor = RetrievedNeighbor(text, text, 0.5, text, True)
    return ExplainedToken(text, -3.0, -math.inf, -3.0 + gain, (neighbor,))


def check(fragment: str) -> Reader:
    """Well-formed, inert, and styled by itself alone."""
    reader = read(fragment)
    names = {tag for tag, _ in reader.elements}
    assert names <= {"div", "span", "table", "thead", "tbody", "tr", "th", "td", "br", "b"}
    attributes = {name for _, a in reader.elements for name in a}
    assert attributes <= {"style", "title", "dir", "scope"}
    assert "url(" not in "".join(a.get("style", "") for _, a in reader.elements)
    return reader


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text_in_an_explanation(text: str) -> None:
    reader = check(explanation_fragment([token(text)], prompt=text))
    assert reader.all_text().count(text) == 2
    title = next(a["title"] for a in reader.tagged("span") if "title" in a)
    assert f"⟦{text}⟧  ({text})" in title


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text_in_a_table(text: str) -> None:
    columns = (Column(text, "word", help=text, group=text), Column("b"))
    rows = ((Cell(text, note=text), Cell(text, tone="good")),)
    reader = check(table_fragment(Table(columns, rows, note=text)))
    assert reader.all_text().count(text) == 5
    assert reader.tagged("th")[0]["title"] == text


def test_control_characters_and_marks_of_direction_are_signs() -> None:
    text = CONTROL + STEERING
    shown = "␀␇␛[31m␡‹U+0085›‹U+202E›evil‹U+202C›"
    for fragment in (
        explanation_fragment([token(text)], prompt=text),
        table_fragment(text_table((text,), ((text,),), note=text)),
    ):
        assert not set(text) - set("evil[31m") & set(fragment)
        assert check(fragment).all_text().count(shown) >= 2


def test_tokens_keep_their_white_space() -> None:
    tokens = sample.passage().tokens
    text = check(explanation_fragment(tokens)).all_text()
    assert "".join(token.text for token in tokens) in text


def test_color_and_underline_follow_the_gain() -> None:
    fragment = explanation_fragment([token("a", 5.0), token("b", 0.0), token("c", -1.0)])
    styles = [a["style"] for a in check(fragment).tagged("span")]
    assert "background:rgb(0 114 178 / 0.55)" in styles[0]
    assert "solid" in styles[0]
    assert "background" not in styles[1]
    assert "background:rgb(230 140 0 / 0.28)" in styles[2]
    assert "dotted" in styles[2]


def test_no_text_color_is_set_on_tokens_so_that_dark_notebooks_work() -> None:
    spans = check(explanation_fragment([token("a")])).tagged("span")
    assert not any(part.startswith("color:") for a in spans for part in a["style"].split(";"))


def test_only_so_many_neighbors_are_shown() -> None:
    explained = max(sample.passage().tokens, key=lambda one: len(one.neighbors))
    assert len(explained.neighbors) == 5
    for shown in (0, 2, 5):
        span = check(explanation_fragment([explained], neighbors=shown)).tagged("span")[0]
        assert len(span["title"].splitlines()) == 1 + shown


def test_impossible_and_empty_explanations() -> None:
    impossible = ExplainedToken("x", -math.inf, -math.inf, -math.inf, ())
    assert "x" in check(explanation_fragment([impossible])).all_text()
    check(explanation_fragment([]))


def test_a_table_fragment_is_complete() -> None:
    table = results_table(sample.results())
    reader = check(table_fragment(table))
    assert len(reader.tagged("th")) == len(table.columns)
    assert len(reader.tagged("td")) == len(table.columns) * len(table.rows)
    assert "covers 81.3\N{NO-BREAK SPACE}%" in reader.all_text()
    assert [a for a in reader.tagged("tr") if "font-weight" in a.get("style", "")]
