"""What the explorer shows of an answer: parts of letters, names of documents, links to sources."""

import json
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from knnlm.integrations.server.pages import FOLDER, explorer_files
from tests.integrations.server import test_explorer
from tests.integrations.server.asking import ask
from tests.integrations.server.test_explorer import explain
from tests.integrations.server.test_score import TEXT

pytestmark = pytest.mark.pipeline
browser, page = test_explorer.browser, test_explorer.page


def answer_with(page: Page, answer: dict[str, Any]) -> None:
    """Every text gets this answer."""
    body = json.dumps(answer)
    page.route(
        "**/api/score", lambda route: route.fulfill(body=body, content_type="application/json")
    )


def score(url: str) -> Any:
    return ask(url, "/api/score", {"text": TEXT, "votes": True, "neighbors": 8, "top": 10}).json


def renamed(answer: Any, names: list[str]) -> dict[str, Any]:
    """The answer of a datastore whose documents have these names, the last for all others."""
    documents = answer["votes"]["documents"]
    new = {
        old: names[n] if n < len(names) else f"{names[-1]}-{n}" for n, old in enumerate(documents)
    }
    answer["votes"]["documents"] = list(new.values())
    for token in answer["tokens"]:
        for neighbor in token["neighbors"]:
            neighbor["document"] = new[neighbor["document"]]
    return dict(answer)


def test_a_letter_of_three_tokens_is_shown_once(page: Page, url: str) -> None:
    answer = score(url)
    for n, text in enumerate(["", "", "漢", " a", "", " 🎉"], start=2):
        answer["tokens"][n]["text"] = text
    answer_with(page, answer)
    explain(page, url)
    spans = page.locator("#passage .token")
    for n, letter in ((2, "漢"), (3, "漢"), (6, "🎉")):
        expect(spans.nth(n)).to_have_text("·")
        expect(spans.nth(n)).to_have_attribute("aria-label", "part of a letter")
        expect(spans.nth(n)).to_have_attribute("title", "part of a letter")
        spans.nth(n).click()
        expect(page.locator(".chosen-token")).to_have_text(f"part of “{letter}”")
    expect(page.locator("#panel")).to_contain_text("“🎉” takes 2 tokens; this is number 1.")
    spans.nth(4).click()
    expect(page.locator("#panel .chosen-token")).to_have_text("“漢”")
    expect(page.locator("#panel")).to_contain_text("“漢” takes 3 tokens; this is number 3.")
    expect(page.locator("#passage .part")).to_have_count(3)
    expect(page.locator("#passage")).not_to_contain_text("\ufffd")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_parts_and_links_can_be_read_by_everyone(browser: Browser, url: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    answer = renamed(score(url), ["https://docs.example/3/page"])
    for n, text in enumerate(["", "", "漢"], start=2):
        answer["tokens"][n]["text"] = text
        answer["tokens"][n]["lm_logprob"] = -20.0  # full color
    answer_with(page, answer)
    explain(page, url)
    expect(page.locator("#panel .from a").first).to_be_visible()
    violations = Axe().run(page).response["violations"]
    context.close()
    assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []


def test_an_unfinished_letter_and_a_token_without_text(page: Page, url: str) -> None:
    answer = score(url)
    answer["tokens"][0]["text"], answer["tokens"][1]["text"] = "", "Hello"
    answer["tokens"][-1]["text"] = ""
    answer_with(page, answer)
    explain(page, url)
    spans = page.locator("#passage .token")
    spans.first.click()
    expect(page.locator("#panel .chosen-token")).to_have_text("a token without text")
    spans.last.click()
    expect(page.locator("#panel .chosen-token")).to_have_text("part of a letter")


def test_parts_of_letters_in_a_continuation(page: Page, url: str) -> None:
    """Known once the letter is complete: the tokens come one by one."""
    logs = {"logprob": -1.0, "lm_logprob": -2.0, "component_logprob": None}
    knn: dict[str, Any] = {"id": 1, **logs, "neighbors": []}
    events = [
        {"choices": [{"text": text, "finish_reason": None, "knn": [knn]}]}
        for text in (" a", "", "", "漢")
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    page.route(
        "**/v1/completions", lambda r: r.fulfill(body=body, content_type="text/event-stream")
    )
    page.goto(f"{url}#compare")
    page.fill("#prompt", "the")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Both wrote the same.")
    page.locator("#knn-text .token").nth(1).click()
    expect(page.locator("#compare-panel .chosen-token")).to_have_text("part of “漢”")


def test_shared_folders_are_left_out_of_names(page: Page, url: str) -> None:
    names = ["manual/library/json.rst", "manual/library/email/parser.rst", "manual/howto"]
    answer_with(page, renamed(score(url), names))
    explain(page, url)
    options = page.locator("#without option").all_inner_texts()
    assert {"library/json.rst", "library/email/parser.rst", "howto-4"} <= set(options)
    option = page.locator("#without option", has_text="library/json.rst")
    expect(option).to_have_attribute("title", "manual/library/json.rst")
    page.select_option("#without", label="library/json.rst")
    expect(page.locator("#perplexity")).to_contain_text("library/json.rst is left out")
    assert "without=manual%2Flibrary%2Fjson.rst" in page.url  # a link has the whole name
    for shown in page.locator("#panel .from span[title]").all():
        assert (shown.get_attribute("title") or "").startswith("manual/")
    whole = page.locator("#panel .whole-name")  # a tooltip is not all: touch screens have none
    expect(whole.first).to_contain_text("manual/")
    assert whole.count() == page.locator("#panel .neighbors li").count()


def test_a_document_with_an_address_is_a_link(page: Page, url: str) -> None:
    answer_with(page, renamed(score(url), ["https://docs.example/3/page"]))
    explain(page, url)
    links = page.locator("#panel .from a")
    expect(links.first).to_be_visible()
    for link in links.all():
        assert (link.get_attribute("href") or "").startswith("https://docs.example/3/page")
        assert link.inner_text().startswith("page")
        expect(link).to_have_attribute("rel", "noopener noreferrer")
        expect(link).to_have_attribute("target", "_blank")
    expect(page.locator("#documents a").first).to_be_visible()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("http://a.example/x", "http://a.example/x"),
        ("pages.jsonl:https://a.example/x?y=1", "https://a.example/x?y=1"),
        ("javascript:alert(1)", None),
        ("javascript:alert(1)//https://a.example", None),
        ("JavaScript:alert('http://a.example')", None),
        ("data:text/html,<script>alert(1)</script>", None),
        ("file:///etc/passwd", None),
        ("//a.example/x", None),
        ("https://", None),
        ("see https://a.example", None),
        ("notes.txt", None),
    ],
)
def test_only_http_and_https_are_addresses(page: Page, name: str, address: str | None) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    assert page.evaluate("name => names.address(name)", name) == address
    tag = page.evaluate("name => names.label(name).tagName", name)
    assert tag == ("SPAN" if address is None else "A")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a.txt", "b.txt"], ["a.txt", "b.txt"]),
        (["x/y/a.txt"], ["a.txt"]),
        (["x/y/a.txt", "x/z/a.txt"], ["y/a.txt", "z/a.txt"]),
        (["wikitext/train/1", "wikitext/train/22"], ["train/1", "train/22"]),
        (["https://h.example/a", "https://h.example/b/c"], ["a", "b/c"]),
        (["https://h.example/a", "notes.txt"], ["h.example/a", "notes.txt"]),
        (["x/a", "x/a/b"], ["a", "a/b"]),
        ([], []),
    ],
)
def test_short_names_tell_documents_apart(page: Page, names: list[str], shown: list[str]) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    assert page.evaluate("all => [...names.shorten(all).values()]", names) == shown


def test_each_script_is_small_and_loaded() -> None:
    scripts = [name for name in explorer_files() if name.endswith(".js")]
    index = (FOLDER / "index.html").read_text()
    for name in scripts:
        assert f'<script src="{name}"></script>' in index, name
        lines = (FOLDER / name).read_text().splitlines()
        if name != "examples.js":  # data
            assert len(lines) < 250, name
            assert max(map(len, lines)) <= 100, name
