import base64
import hashlib
import math
import re
from dataclasses import replace

from knnlm.evaluation.explanation import ExplainedToken, Passage
from knnlm.report import html
from knnlm.report.demo import document
from knnlm.report.document import (
    Cell,
    Column,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    TokenView,
)
from knnlm.report.results import ConditionResult, DemoResults
from knnlm.report.tokens import gain, token_text

from . import sample
from .reading import panel_data, read


def render(results: DemoResults) -> str:
    return html.render(document(results))


def test_the_page_is_well_formed_and_the_same_each_time() -> None:
    first = render(sample.results())
    assert first == render(sample.results())
    assert first.startswith("<!doctype html>")
    read(first)


def test_hostile_text_stays_text_everywhere() -> None:
    made = render(sample.hostile_results())
    reader = read(made)
    # ours, the data block, and nothing that came with the text
    assert [a.get("type", "") for a in reader.tagged("script")] == ["application/json", ""]
    assert "<script>alert" not in made
    assert not any(name.startswith("on") for _, a in reader.elements for name in a)
    # title, row, both plots' legends, passage, fact, commands: shown as they are
    assert reader.all_text().count(sample.HOSTILE) >= 10
    block = made.partition('id="passage-data">')[2].partition("</script>")[0]
    assert not set("<>&") & set(block)  # nothing in it can open or close markup
    neighbor = panel_data(made)["tokens"][0]["neighbors"][0]
    assert (neighbor["before"], neighbor["token"], neighbor["document"]) == (sample.HOSTILE,) * 3


def test_nothing_is_loaded_from_elsewhere() -> None:
    made = render(sample.results())
    reader = read(made)
    for _, attributes in reader.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    css = "".join(reader.raw)
    assert "@import" not in css
    assert not re.search(r"url\(\s*['\"]?(?!#)", made)
    assert set(re.findall(r"https?://[^\"'\s<]*", made)) <= {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_exactly_our_script() -> None:
    made = render(sample.results())
    policy = read(made).having(**{"http-equiv": "Content-Security-Policy"})[0]["content"]
    script = made.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert len(script) > 500


def test_ids_are_unique_and_references_resolve() -> None:
    reader = read(render(sample.results()))
    ids = [a["id"] for _, a in reader.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert len(reader.having(role="img")) == 2
    for _, attributes in reader.elements:
        for value in attributes.values():
            for target in re.findall(r"url\(#([^)]*)\)", value):
                assert target in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_the_headline_is_the_best_condition_and_its_row_is_marked() -> None:
    conditions = (
        sample.condition(interp=36.0),
        sample.condition("ffn", interp=30.11),
        sample.condition(interp=33.0),
    )
    made = render(replace(sample.results(), conditions=conditions))
    headline = re.search(r"<h1>(.*?)</h1>", made)
    assert headline
    assert "from 41.27 to 30.11" in headline[1]
    assert "−27.0\N{NO-BREAK SPACE}%" in headline[1]
    assert made.count('<tr class="best">') == 1
    marked = made.partition('<tr class="best">')[2].partition("</tr>")[0]
    assert ">ffn" in marked
    assert "30.11" in marked


def test_an_infinite_perplexity_is_a_sign_with_its_coverage() -> None:
    made = render(sample.results())
    assert "∞<small>covers 81.3\N{NO-BREAK SPACE}%</small>" in made
    text = read(made).all_text()
    assert not re.search(r"\b(inf|nan)\b", text)


def test_every_column_is_explained_and_every_row_is_full() -> None:
    made = render(sample.results())
    titles = [a["title"] for a in read(made).tagged("abbr")]
    assert len(titles) >= 15
    assert all(titles)
    body = made.partition("<tbody>")[2].partition("</tbody>")[0]
    lines = body.strip().splitlines()
    assert len(lines) == 8
    assert all(line.count("</td>") + line.count("</th>") == len(titles) for line in lines)
    groups = made.partition("<thead>")[2].partition("</tr>")[0]
    assert sum(map(int, re.findall(r'colspan="(\d+)"', groups))) == len(titles)


def test_light_and_dark_and_print_define_the_same_colors() -> None:
    css = "".join(read(render(sample.results())).raw)
    light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
    dark = rest.partition("}\n}")[0]
    printed = rest.partition("@media print")[2].partition("}")[0]
    wanted = set(re.findall(r"(--[\w-]+):", light)) - {"--gain"}
    assert {"--paper", "--ink", "--up", "--down", "--series-4"} <= wanted
    assert (
        wanted == set(re.findall(r"(--[\w-]+):", dark)) == set(re.findall(r"(--[\w-]+):", printed))
    )


def test_tokens_can_be_focused_and_speak_without_the_script() -> None:
    results = sample.results()
    assert results.passage
    tokens = [
        a for a in read(render(results)).tagged("span") if re.fullmatch(r"t\d+", a.get("id", ""))
    ]
    assert len(tokens) == len(results.passage.tokens)
    assert all(a["tabindex"] == "0" for a in tokens)
    assert tokens[0]["title"] == token_text(results.passage.tokens[0])


def test_the_passage_keeps_its_white_space() -> None:
    results = sample.results()
    assert results.passage
    made = render(results)
    inner = made.partition('id="passage" dir="auto" role="group"')[2].partition("</div>")[0]
    text = read(f"<div {inner}</div>").all_text()
    assert text == "".join(token.text for token in results.passage.tokens)
    assert "\n    " in text


def test_color_follows_the_gain_and_is_clipped() -> None:
    def token(nats: float) -> ExplainedToken:
        return ExplainedToken("x", -5.0, -math.inf, -5.0 + nats, ())

    gains = (5.0, 1.0, 0.0, -0.5)
    passage = Passage("d", "s", tuple(token(nats) for nats in gains))
    reader = read(render(replace(sample.results(), passage=passage)))
    spans = [reader.having(id=f"t{index}")[0] for index in range(4)]
    assert [a["class"] for a in spans] == ["token up", "token up", "token same", "token down"]
    assert [a["style"] for a in spans] == [
        f"--gain:{g}" for g in ("1.000", "0.500", "0.000", "0.250")
    ]


def test_the_panel_opens_at_the_largest_gain_with_the_strongest_neighbor_first() -> None:
    results = sample.results()
    assert results.passage
    tokens = results.passage.tokens
    data = panel_data(render(results))
    assert len(data["tokens"]) == len(tokens)
    largest = max(range(len(tokens)), key=lambda index: gain(tokens[index]))
    assert data["start"] == largest
    for one, token in zip(data["tokens"], tokens, strict=True):
        shares = [neighbor["share"] for neighbor in one["neighbors"]]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == len(token.neighbors)
    zero = next(index for index, t in enumerate(tokens) if t.component_logprob == -math.inf)
    assert data["tokens"][zero]["parts"][1] == {"of": "kNN", "text": "0", "share": 0.0}


def test_impossible_tokens_do_not_break_the_page() -> None:
    impossible = ExplainedToken("x", -math.inf, -math.inf, -math.inf, ())
    rescued = ExplainedToken("y", -math.inf, -0.1, -1.4, ())
    made = render(replace(sample.results(), passage=Passage("d", "s", (impossible, rescued))))
    reader = read(made)
    assert reader.having(id="t0")[0]["class"] == "token same"
    assert reader.having(id="t0")[0]["style"] == "--gain:0.000"
    assert reader.having(id="t1")[0]["style"] == "--gain:1.000"
    assert "from ∞ to ∞" in reader.all_text()


def test_a_page_with_little_on_it() -> None:
    empty = DemoResults("t", (), 0, 0, 0, (), (), None, (), (), "knnlm demo")
    text = read(render(empty)).all_text()
    assert "No retrieval condition was measured." in text
    assert "knnlm demo" in text
    assert "Token by token" not in text
    bare = replace(empty, passage=Passage("a.txt", "att", ()))
    assert "a.txt (att): the passage is empty" in read(render(bare)).all_text()


def test_facts_and_commands_are_shown() -> None:
    results = sample.results()
    text = read(render(results)).all_text()
    facts = [part for fact in results.facts for part in fact]
    for shown in (*results.commands, results.command, *facts):
        assert shown in text


def test_numbers_that_were_not_measured_are_a_dash() -> None:
    row: ConditionResult = replace(sample.condition(), recall=math.nan, oracle_ppl=math.nan)
    made = render(replace(sample.results(), conditions=(row,)))
    body = made.partition("<tbody>")[2].partition("</tbody>")[0]
    assert body.count(">–</td>") == 2


def test_a_document_without_tokens_has_no_script() -> None:
    made = html.render(Document("t", (Section("s", ("text",)),)))
    assert not read(made).tagged("script")
    assert "script-src" not in made
    assert "default-src 'none'" in made


def test_two_token_views_share_no_id() -> None:
    view = TokenView(sample.passage().tokens)
    reader = read(html.render(Document("t", (Section("s", (view, view)),))))
    ids = [a["id"] for _, a in reader.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {"t0", "panel", "v2-t0", "v2-panel"} <= set(ids)


def test_a_long_document_lists_its_sections() -> None:
    sections = tuple(Section(f"Part {i}", ("text",)) for i in range(9))
    made = html.render(Document("t", sections))
    assert [a["href"] for a in read(made).tagged("a")] == [f"#s{i}" for i in range(1, 10)]
    assert "<nav" not in html.render(Document("t", sections[:3]))


def test_marks_of_prose_become_elements_and_those_of_strings_do_not() -> None:
    made = html.render(Document("t", (Section("s", (Paragraph("**a** `<b>`"), "**c**")),)))
    assert "<p><strong>a</strong> <code>&lt;b&gt;</code></p>" in made
    assert "<p>**c**</p>" in made


def test_control_characters_are_signs() -> None:
    made = html.render(Document("a\x00b", (Section("\x1b", ("\N{RIGHT-TO-LEFT OVERRIDE}x",)),)))
    assert "a␀b" in made
    assert "‹U+202E›x" in made
    assert not {"\x00", "\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}"} & set(made)


def test_adjacent_figures_of_half_width_stand_side_by_side() -> None:
    half = Figure("a", "A.", "<svg></svg>", half_width=True)
    wide = Figure("b", "B.", "<svg></svg>")
    made = html.render(Document("t", (Section("s", (half, half, wide, half)),)))
    assert made.count('<div class="figures">') == 2
    assert made.count('<figure class="wide">') == 1


def test_verdicts_have_a_tone() -> None:
    table = Table((Column("v"),), ((Cell("holds", tone="good"),), (Cell("x", tone="open"),)))
    made = html.render(Document("t", (Section("s", (table,)),)))
    assert '<span class="good">holds</span>' in made
    assert '<span class="open">x</span>' in made
