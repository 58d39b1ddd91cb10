"""What a first-time visitor of the explorer sees, and whether it says what it means."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from knnlm import KNNLM
from knnlm.integrations.server.pages import FOLDER
from tests.integrations.server import test_explorer
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import DOCUMENTS
from tests.integrations.server.test_explorer import explain, perplexity
from tests.integrations.server.test_score import TEXT

pytestmark = pytest.mark.pipeline
browser, page = test_explorer.browser, test_explorer.page


def open_page(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("#panel .neighbors li").first.wait_for(timeout=20_000)


def test_it_opens_on_the_served_datastore(page: Page, url: str) -> None:
    open_page(page, url)
    about, info = page.locator("#about"), ask(url, "/api/info").json
    expect(about).to_contain_text("Datastore tiny")
    expect(about).to_contain_text(f"{info['entries']:,} entries of {DOCUMENTS} documents")
    expect(about).to_contain_text(info["base_model"]["name"])
    text = page.locator("#text").input_value()
    assert len(text.split()) >= 5
    expect(page.locator("#source")).to_contain_text("a document of this datastore")
    expect(page.locator("#source")).to_contain_text("is left out")
    assert perplexity(page) > 0
    expect(page.locator("#example option:checked")).to_have_text("a recorded example")
    expect(page.locator("#prompt")).not_to_have_value("")


def test_the_model_is_named_without_its_folders(url: str) -> None:
    model = ask(url, "/api/info").json["base_model"]
    assert "/" not in model["name"]
    assert model["parameters"] > 0


def test_what_a_visitor_writes_is_not_replaced(page: Page, url: str) -> None:
    page.route("**/api/entries", lambda route: None)  # never answered
    page.goto(url)
    expect(page.locator("#about")).to_contain_text("entries")
    expect(page.locator("#go")).to_be_enabled()
    page.fill("#text", TEXT)
    page.click("#go")
    expect(page.locator("#passage .token").first).to_be_visible(timeout=20_000)
    expect(page.locator("#text")).to_have_value(TEXT)


def test_a_late_answer_does_not_follow_an_error(page: Page, url: str) -> None:
    held: list[Route] = []
    page.route("**/api/score", lambda route: held.append(route))
    with page.expect_request("**/api/score"):
        page.goto(url)
    page.fill("#text", "  ")
    page.click("#go")
    expect(page.locator("#status")).to_have_text("Paste a text first.")
    for route in held:
        route.continue_()
    page.wait_for_timeout(500)
    expect(page.locator("#status")).to_have_text("Paste a text first.")
    expect(page.locator("#result")).to_be_hidden()


def test_examples_are_marked_as_recorded_elsewhere(page: Page, url: str) -> None:
    open_page(page, url)
    group = page.locator("#example optgroup")
    expect(group).to_have_attribute("label", "recorded with SmolLM2 and Python's documentation")
    page.select_option("#example", "A story")
    expect(page.locator("#source")).to_contain_text("recorded elsewhere, not with the datastore")
    page.fill("#text", TEXT)
    page.click("#go")
    expect(page.locator("#source")).to_have_text("", timeout=20_000)
    expect(page.locator("#example")).to_have_value("")


@pytest.mark.parametrize("text", ["  ", "the cat " * 3000])
def test_an_error_leaves_no_old_result(page: Page, url: str, text: str) -> None:
    explain(page, url)
    expect(page.locator("#result")).to_be_visible()
    page.fill("#text", text)
    page.click("#go")
    expect(page.locator("#status")).to_have_class("error", timeout=20_000)
    expect(page.locator("#result")).to_be_hidden()


def test_shares_of_documents_sum_to_the_whole(page: Page, url: str) -> None:
    explain(page, url)
    shown = page.locator("#documents li").all_inner_texts()
    assert len(shown) >= 3
    shares = [float(share) for each in shown for share in re.findall(r"([\d.]+) %", each)]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shown))
    expect(page.locator("#documents")).to_contain_text("of the whole vote is for the tokens")
    assert page.evaluate("() => lists.share(1e-5)") == "<0.1 %"


def test_who_voted_for_the_token_comes_first(page: Page, url: str) -> None:
    """However far away: here the only such neighbor is the last."""
    answer = ask(url, "/api/score", {"text": TEXT, "votes": True, "neighbors": 8}).json
    k, token, position = (
        answer["settings"]["k"],
        answer["tokens"][4],
        answer["votes"]["positions"][4],
    )
    if token["id"] not in position["distinct"]:
        position["distinct"].append(token["id"])
        position["lm_logprobs"].append(token["lm_logprob"])
    hit = position["distinct"].index(token["id"])
    other = next(n for n in range(len(position["distinct"])) if n != hit)
    position["which"] = [hit if n == k - 1 else other for n in range(len(position["which"]))]
    body = json.dumps(answer)
    page.route("**/api/score", lambda r: r.fulfill(body=body, content_type="application/json"))
    explain(page, url)
    page.locator("#passage .token").nth(4).click()
    expect(page.locator("#panel")).to_contain_text(f": 1 of {k} neighbors, with ")
    first = page.locator("#panel .neighbors li").first
    expect(first.locator("mark.hit")).to_have_count(1)
    expect(first).not_to_contain_text("not recorded")
    entry = ask(url, "/api/entries", {"entries": [position["entries"][k - 1]]}).json["entries"][0]
    expect(first).to_contain_text(entry["document"])
    expect(page.locator("#panel .others li")).to_have_count(3)


def test_a_change_is_told_in_probabilities_and_as_a_factor(page: Page, url: str) -> None:
    explain(page, url)
    told = page.locator("#panel .verdict")
    expect(told).to_have_text(
        re.compile(r"^LM alone \S+ % → with the vote \S+ %: (likelier|less likely) by a factor of")
    )


def test_similarity_is_explained(page: Page, url: str) -> None:
    explain(page, url)
    expect(page.locator("#panel")).to_contain_text("minus the squared distance")


def test_both_continuations_look_the_same_and_say_how(page: Page, url: str) -> None:
    logs = {"logprob": -1.0, "lm_logprob": -2.0, "component_logprob": None}
    knn: dict[str, Any] = {"id": 1, **logs, "neighbors": []}
    events = [
        {"choices": [{"text": text, "finish_reason": None, "knn": [knn]}]} for text in (" a", "\n")
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    page.route(
        "**/v1/completions", lambda r: r.fulfill(body=body, content_type="text/event-stream")
    )
    page.goto(f"{url}#compare")
    expect(page.locator("#about")).to_contain_text("entries")
    expect(page.locator("#compare")).to_contain_text("the most probable token")
    page.fill("#prompt", "the")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Both wrote the same.")
    for column in ("#base-text", "#knn-text"):
        expect(page.locator(f"{column} .newline")).to_have_count(1)


@pytest.mark.parametrize("is_base", [True, False])
def test_a_model_that_ends_the_text_at_once_says_so(
    page: Page, url: str, knnlm_model: KNNLM, is_base: bool
) -> None:
    ends = {"logit_bias": {str(knnlm_model.tokenizer.eos_token_id): 100}}

    def ending(route: Route) -> None:
        body: Any = route.request.post_data_json
        one_ends = body["model"].endswith(":base") == is_base
        route.continue_(post_data={**body, **ends} if one_ends else body)

    page.route("**/v1/completions", ending)
    page.goto(f"{url}#compare")
    expect(page.locator("#about")).to_contain_text("entries")
    page.fill("#prompt", "the cat")
    page.click("#continue-go")
    columns = ("#base-text", "#knn-text") if is_base else ("#knn-text", "#base-text")
    expect(page.locator(columns[0])).to_contain_text("The model ended the text at once.")
    expect(page.locator("#continue-go")).to_be_enabled()
    expect(page.locator(columns[1])).not_to_contain_text("at once")
    told = re.compile("^Choose a token" if is_base else "^$")
    expect(page.locator("#compare-status")).to_have_text(told)


def test_a_phone_shows_tabs_in_a_line_and_the_text_on_the_first_screen(
    browser: Browser, url: str
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    open_page(page, url)
    boxes = [tab.bounding_box() for tab in page.locator("nav a").all()]
    assert len({box["y"] for box in boxes if box is not None}) == 1
    passage = page.locator("#passage").bounding_box()
    assert passage is not None
    assert passage["y"] < 700
    expect(page.locator("#lambda")).to_be_hidden()
    page.locator("#settings summary").click()
    expect(page.locator("#lambda")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 844})
    expect(page.locator("#lambda")).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    ("text", "is_cut", "shown"),
    [
        ("indiff has another", True, "… has another"),
        (" notion of", True, "… notion of"),
        ("s.\n\nA class", True, "… A class"),
        ("The first words", False, "The first words"),
        ("", True, "…"),
        ("word", True, "…word"),
        ("語" * 40 + " 語", True, "…" + "語" * 40 + " 語"),
    ],
)
def test_passages_begin_with_a_word(page: Page, text: str, is_cut: bool, shown: str) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    assert page.evaluate("([text, cut]) => passages.before(text, cut)", [text, is_cut]) == shown


@pytest.mark.parametrize(
    ("text", "is_cut", "shown"),
    [
        (" to be retriev", True, " to be …"),
        (" to the end.\n", False, " to the end.\n"),
        ("ing", True, "ing …"),
    ],
)
def test_passages_end_with_a_word(page: Page, text: str, is_cut: bool, shown: str) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    assert page.evaluate("([text, cut]) => passages.after(text, cut)", [text, is_cut]) == shown


def test_the_server_says_where_a_passage_is_cut(url: str) -> None:
    first, middle = ask(url, "/api/entries", {"entries": [0, 40]}).json["entries"]
    assert (first["before"], first["cut_before"], first["cut_after"]) == ("", False, True)
    assert middle["cut_before"]


def test_an_example_is_named_at_the_top_as_long_as_it_is_shown(page: Page, url: str) -> None:
    open_page(page, url)
    about = page.locator("#about")
    expect(about).to_contain_text("Datastore tiny")
    page.select_option("#example", "A story")
    expect(about).to_have_text("An example, recorded with SmolLM2 and Python's documentation.")
    page.click("#tab-compare")
    expect(about).to_contain_text("Datastore tiny")
    page.click("#tab-explain")
    expect(about).to_contain_text("An example")
    page.fill("#text", TEXT)
    page.click("#go")
    expect(about).to_contain_text("Datastore tiny", timeout=20_000)


def test_the_text_field_asks_for_no_more_than_is_needed(page: Page, url: str) -> None:
    explain(page, url, "cat")
    assert perplexity(page) > 0
    expect(page.locator("#text")).to_have_attribute("placeholder", "Paste a text")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" ", "␣"),
        ("    ", "␣×4"),
        ("\n", "↵"),
        ("\n\n", "↵×2"),
        ("\n\t  ", "↵⇥␣×2"),
        ("\r\n", "␍↵"),
        ("\u00a0", "U+00A0"),
        (" the", "␣the"),
        ("a\tb", "a⇥b"),
        ("", ""),
    ],
)
def test_white_space_can_be_told_apart(page: Page, text: str, shown: str) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    assert page.evaluate("text => page.oneLine(text)", text) == shown


def test_no_two_of_the_likeliest_tokens_look_the_same(page: Page, url: str) -> None:
    answer = ask(url, "/api/score", {"text": TEXT, "votes": True, "neighbors": 8, "top": 10}).json
    for known, text in zip(answer["tokens"][4]["lm_top"], (" ", "  ", "    ", " "), strict=False):
        known["text"] = text
    body = json.dumps(answer)
    page.route("**/api/score", lambda r: r.fulfill(body=body, content_type="application/json"))
    explain(page, url)
    page.locator("#passage .token").nth(4).click()
    shown = page.locator(".tops > div").first.locator("li span:first-child").all_inner_texts()
    ids = [known["id"] for known in answer["tokens"][4]["lm_top"]]
    assert shown[:4] == [f"␣ #{ids[0]}", "␣×2", "␣×4", f"␣ #{ids[3]}"]
