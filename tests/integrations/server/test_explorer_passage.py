"""The passage that the explorer opens on: its own document has no vote, whatever a visitor does."""

import math
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from knnlm import KNNLM, Datastore
from tests.integrations.server import test_explorer
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import K, write_documents
from tests.integrations.server.test_explorer import perplexity, set_slider
from tests.integrations.server.test_score import TEXT

pytestmark = pytest.mark.pipeline
browser, page = test_explorer.browser, test_explorer.page
NOTE = "Its own document is left out"


def open_passage(page: Page, url: str) -> str:
    """Open the page; the name of the passage's document."""
    page.goto(url)
    page.locator("#panel .neighbors li").first.wait_for(timeout=20_000)
    named = re.search(r"A passage of (\S+), a", page.locator("#source").inner_text())
    assert named is not None
    return named[1]


def is_left_out(page: Page, own: str) -> None:
    """The note says so, and it is true."""
    expect(page.locator("#source")).to_contain_text(f"A passage of {own}, a document of this")
    expect(page.locator("#source")).to_contain_text(NOTE)
    expect(page.locator("#perplexity")).to_contain_text(own)
    expect(page.locator("#perplexity")).to_contain_text("left out of the vote")
    expect(page.locator("#panel .neighbors li", has_text=own)).to_have_count(0)
    expect(page.locator("#documents li", has_text=own)).to_have_count(0)
    expect(page.locator("#without option", has_text=own)).to_have_count(0)


def leave_another_out(page: Page) -> str:
    """By the first button of the list; the name of the document."""
    button = page.locator("#documents li button").first
    name = (button.get_attribute("aria-label") or "").removeprefix("leave out ")
    button.click()
    expect(page.locator("#without option:checked")).to_have_text(name)
    return name


def test_tuned_values_leave_the_choice_of_documents_alone(page: Page, url: str) -> None:
    own = open_passage(page, url)
    before = perplexity(page)
    set_slider(page, "lambda", 0.9)
    page.click("#reset")
    is_left_out(page, own)
    assert perplexity(page) == before
    other = leave_another_out(page)
    left_out = perplexity(page)
    set_slider(page, "k", 0.3)
    page.click("#reset")
    expect(page.locator("#without option:checked")).to_have_text(other)
    assert perplexity(page) == left_out


def test_explaining_the_same_text_again_changes_nothing(page: Page, url: str) -> None:
    own = open_passage(page, url)
    before = perplexity(page)
    with page.expect_response("**/api/score"):
        page.click("#go")
    expect(page.locator("#go")).to_be_enabled(timeout=20_000)
    is_left_out(page, own)
    assert perplexity(page) == before


def test_two_documents_left_out_are_as_if_they_were_never_stored(
    page: Page, url: str, tmp_path: Path, server_model: Path
) -> None:
    own = open_passage(page, url)
    text, before = page.locator("#text").input_value(), perplexity(page)
    other = leave_another_out(page)
    is_left_out(page, own)
    expect(page.locator("#perplexity")).to_contain_text(
        f"The documents {own} and {other} are left out of the vote."
    )
    expect(page.locator("#perplexity")).not_to_contain_text("approximate")
    tau = ask(url, "/api/info").json["settings"]["tau"]
    others = write_documents(tmp_path / "docs", without=[own, other])
    model = KNNLM(Datastore.build(server_model, others, tmp_path / "store"), lam=0.4, tau=tau, k=K)
    logs = [token.mixed_logprob for token in model.explain(text).tokens]
    assert perplexity(page) == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=1e-4)
    expect(page.get_by_role("button", name=f"take {own} back")).to_have_count(0)
    page.get_by_role("button", name=f"take {other} back").click()
    is_left_out(page, own)
    assert perplexity(page) == before


def test_a_link_keeps_both_documents_out(page: Page, url: str) -> None:
    own = open_passage(page, url)
    other = leave_another_out(page)
    before, link = perplexity(page), page.url
    page.goto("about:blank")
    page.goto(link)
    page.locator("#panel .neighbors li").first.wait_for(timeout=20_000)
    is_left_out(page, own)
    expect(page.locator("#without option:checked")).to_have_text(other)
    assert perplexity(page) == before
    assert page.url == link


def test_a_passage_is_recognized_even_if_it_is_known_late(page: Page, url: str) -> None:
    """A link that names no document to leave out, and a server that is slow to tell passages."""
    own = open_passage(page, url)
    before, link = perplexity(page), re.sub(r"&without=[^&]*", "", page.url)
    held = []
    page.goto("about:blank")
    page.route("**/api/entries", lambda route: held.append(route))
    page.goto(link)
    page.locator("#panel .neighbors li").first.wait_for(timeout=20_000)
    expect(page.locator("#source")).to_have_text("")
    for route in held:
        route.continue_()
    is_left_out(page, own)
    assert perplexity(page) == before


def test_another_text_has_no_own_document(page: Page, url: str) -> None:
    own = open_passage(page, url)
    page.fill("#text", TEXT)
    is_left_out(page, own)  # what is shown is still the passage
    page.click("#go")
    expect(page.locator("#source")).to_have_text("", timeout=20_000)
    expect(page.locator("#perplexity")).not_to_contain_text("left out")
    expect(page.locator("#without option", has_text=own)).to_have_count(1)
