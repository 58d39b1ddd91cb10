import base64
import hashlib
import math
import re
from dataclasses import replace

from knnlm.evaluation.explanation import ExplainedToken, Passage
from knnlm.report import words
from knnlm.report.content import Page, Row
from knnlm.report.page import render

from . import sample
from .reading import panel_data, read


def test_the_page_is_well_formed_and_the_same_each_time() -> None:
    first = render(sample.page())
    assert first == render(sample.page())
    assert first.startswith("<!doctype html>")
    read(first)


def test_hostile_text_stays_text_everywhere() -> None:
    made = render(sample.hostile_page())
    reader = read(made)
    # ours, the data block, and nothing that came with the text
    assert [a.get("type", "") for a in reader.tagged("script")] == ["application/json", ""]
    assert "<script>alert" not in made
    assert not any(name.startswith("on") for _, a in reader.elements for name in a)
    # title, row, both plots' legends, passage, fact, commands: shown as they are
    assert reader.all_text().count(sample.HOSTILE) >= 10
    block = made.partition('id="passage-data">')[2].partition("</script>")[0]
    assert not set("<>&") & set(block)  # nothing in it can open or close markup
    hit = panel_data(made)["tokens"][0]["hits"][0]
    assert (hit["before"], hit["token"], hit["document"]) == (sample.HOSTILE,) * 3


def test_nothing_is_loaded_from_elsewhere() -> None:
    made = render(sample.page())
    reader = read(made)
    for _, attributes in reader.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    css = "".join(reader.raw)
    assert "@import" not in css
    assert not re.search(r"url\(\s*['\"]?(?!#)", made)
    assert set(re.findall(r"https?://[^\"'\s<]*", made)) <= {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_exactly_our_script() -> None:
    made = render(sample.page())
    policy = read(made).having(**{"http-equiv": "Content-Security-Policy"})[0]["content"]
    script = made.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert len(script) > 500


def test_ids_are_unique_and_references_resolve() -> None:
    reader = read(render(sample.page()))
    ids = [a["id"] for _, a in reader.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert len(reader.having(role="img")) == 2
    for _, attributes in reader.elements:
        for value in attributes.values():
            for target in re.findall(r"url\(#([^)]*)\)", value):
                assert target in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_the_headline_is_the_best_row_and_that_row_is_marked() -> None:
    rows = (sample.row(interp=36.0), sample.row("ffn", interp=30.11), sample.row(interp=33.0))
    made = render(replace(sample.page(), rows=rows))
    headline = re.search(r"<h1>(.*?)</h1>", made)
    assert headline
    assert "from 41.27 to 30.11" in headline[1]
    assert "−27.0\N{NO-BREAK SPACE}%" in headline[1]
    assert made.count("<tr class=best>") == 1
    marked = made.partition("<tr class=best>")[2].partition("</tr>")[0]
    assert ">ffn" in marked
    assert "30.11" in marked


def test_an_infinite_perplexity_is_a_sign_with_its_coverage() -> None:
    made = render(sample.page())
    assert "∞<small>covers 81.3\N{NO-BREAK SPACE}%</small>" in made
    text = read(made).all_text()
    assert not re.search(r"\b(inf|nan)\b", text)


def test_every_column_is_explained_and_every_row_is_full() -> None:
    made = render(sample.page())
    titles = [a["title"] for a in read(made).tagged("abbr")]
    assert len(titles) >= 15
    assert all(titles)
    body = made.partition("<tbody>")[2].partition("</tbody>")[0]
    lines = body.strip().splitlines()
    assert len(lines) == 8
    assert all(line.count("</td>") + line.count("</th>") == len(titles) for line in lines)
    groups = made.partition("<thead>")[2].partition("</tr>")[0]
    assert sum(map(int, re.findall(r'colspan="(\d+)"', groups))) == len(titles)


def test_light_and_dark_and_print_define_the_same_colours() -> None:
    css = "".join(read(render(sample.page())).raw)
    light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
    dark = rest.partition("}\n}")[0]
    printed = rest.partition("@media print")[2].partition("}")[0]
    wanted = set(re.findall(r"(--[\w-]+):", light)) - {"--gain"}
    assert {"--paper", "--ink", "--up", "--down", "--series-4"} <= wanted
    assert (
        wanted == set(re.findall(r"(--[\w-]+):", dark)) == set(re.findall(r"(--[\w-]+):", printed))
    )


def test_tokens_can_be_focused_and_speak_without_the_script() -> None:
    page = sample.page()
    assert page.passage
    tokens = [
        a for a in read(render(page)).tagged("span") if re.fullmatch(r"t\d+", a.get("id", ""))
    ]
    assert len(tokens) == len(page.passage.tokens)
    assert all(a["tabindex"] == "0" for a in tokens)
    assert tokens[0]["title"] == words.token_text(page.passage.tokens[0])


def test_the_passage_keeps_its_white_space() -> None:
    page = sample.page()
    assert page.passage
    made = render(page)
    inner = made.partition('id="passage" role="group"')[2].partition("</div>")[0]
    text = read(f"<div {inner}</div>").all_text()
    assert text == "".join(token.text for token in page.passage.tokens)
    assert "\n    " in text


def test_colour_follows_the_gain_and_is_clipped() -> None:
    def token(gain: float) -> ExplainedToken:
        return ExplainedToken("x", -5.0, -math.inf, -5.0 + gain, ())

    gains = (5.0, 1.0, 0.0, -0.5)
    passage = Passage("d", "s", tuple(token(gain) for gain in gains))
    reader = read(render(replace(sample.page(), passage=passage)))
    found = [reader.having(id=f"t{place}")[0] for place in range(4)]
    assert [a["class"] for a in found] == ["token up", "token up", "token same", "token down"]
    assert [a["style"] for a in found] == [
        f"--gain:{g}" for g in ("1.000", "0.500", "0.000", "0.250")
    ]


def test_the_panel_opens_at_the_largest_gain_with_the_strongest_hit_first() -> None:
    page = sample.page()
    assert page.passage
    tokens = page.passage.tokens
    data = panel_data(render(page))
    assert len(data["tokens"]) == len(tokens)
    largest = max(range(len(tokens)), key=lambda place: words.gain(tokens[place]))
    assert data["start"] == largest
    for one, token in zip(data["tokens"], tokens, strict=True):
        shares = [hit["share"] for hit in one["hits"]]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == len(token.neighbors)
    zero = next(place for place, t in enumerate(tokens) if t.component_logprob == -math.inf)
    assert data["tokens"][zero]["parts"][1] == {"of": "kNN", "text": "0", "share": 0.0}


def test_impossible_tokens_do_not_break_the_page() -> None:
    impossible = ExplainedToken("x", -math.inf, -math.inf, -math.inf, ())
    rescued = ExplainedToken("y", -math.inf, -0.1, -1.4, ())
    made = render(replace(sample.page(), passage=Passage("d", "s", (impossible, rescued))))
    reader = read(made)
    assert reader.having(id="t0")[0]["class"] == "token same"
    assert reader.having(id="t0")[0]["style"] == "--gain:0.000"
    assert reader.having(id="t1")[0]["style"] == "--gain:1.000"
    assert "from ∞ to ∞" in reader.all_text()


def test_a_page_with_little_on_it() -> None:
    empty = Page("t", (), 0, 0, 0, (), (), None, (), (), "knnlm demo")
    text = read(render(empty)).all_text()
    assert "No retrieval setting was measured." in text
    assert "knnlm demo" in text
    assert "Token by token" not in text
    bare = replace(empty, passage=Passage("a.txt", "att", ()))
    assert "a.txt (att): the passage is empty" in read(render(bare)).all_text()


def test_facts_and_commands_are_shown() -> None:
    page = sample.page()
    text = read(render(page)).all_text()
    for shown in (*page.commands, page.command, *(part for fact in page.facts for part in fact)):
        assert shown in text


def test_numbers_that_were_not_measured_are_a_dash() -> None:
    row: Row = sample.row()._replace(recall=math.nan, oracle_ppl=math.nan)
    body = (
        render(replace(sample.page(), rows=(row,))).partition("<tbody>")[2].partition("</tbody>")[0]
    )
    assert body.count(">–</td>") == 2
