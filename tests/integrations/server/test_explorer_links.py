"""The explorer's address: it says what is shown, and brings it back after a reload."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integrations.server import test_explorer
from tests.integrations.server.test_explorer import explain
from tests.integrations.server.test_score import TEXT

pytestmark = pytest.mark.pipeline
browser, page = test_explorer.browser, test_explorer.page


def requests_to(page: Page, path: str) -> list[str]:
    """The requests for a path, as they come."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if path in request.url else None)
    return asked


def shows(page: Page, view: str) -> None:
    other = {"explain": "compare", "compare": "explain"}[view]
    expect(page.locator(f"#{view}")).to_be_visible()
    expect(page.locator(f"#{other}")).to_be_hidden()
    expect(page.locator("nav [aria-current]")).to_have_id(f"tab-{view}")


def test_the_second_tab_survives_a_reload(page: Page, url: str) -> None:
    page.goto(f"{url}#compare")
    expect(page.locator("#about")).to_contain_text("entries")
    page.reload()
    expect(page.locator("#about")).to_contain_text("entries")
    shows(page, "compare")
    assert page.url.endswith("#compare")
    page.click("#tab-explain")
    expect(page.locator("#passage .token").first).to_be_visible()
    assert "#explain?text=" in page.url


def test_a_beginning_and_its_length_survive_a_reload(page: Page, url: str) -> None:
    page.goto(f"{url}#compare")
    page.fill("#prompt", "the cat & the dog?")
    page.fill("#length", "5")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Choose a token", timeout=20_000)
    link = page.url
    asked = requests_to(page, "/v1/")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#about")).to_contain_text("entries")
    shows(page, "compare")
    expect(page.locator("#prompt")).to_have_value("the cat & the dog?")
    expect(page.locator("#length")).to_have_value("5")
    assert page.url == link
    assert asked == []  # a link does not make the server write


@pytest.mark.parametrize(
    ("fields", "length"),
    [("prompt=a&length=x", "40"), ("prompt=a&length=-3", "40"), ("prompt=a&length=1e9", "200")],
)
def test_a_broken_link_is_used_as_far_as_it_makes_sense(
    page: Page, url: str, fields: str, length: str
) -> None:
    page.goto(f"{url}#compare?{fields}")
    expect(page.locator("#prompt")).to_have_value("a")
    expect(page.locator("#length")).to_have_value(length)


def test_back_and_forward_move_between_tabs(page: Page, url: str) -> None:
    explain(page, url)
    page.locator("#passage .token").nth(3).click()
    page.click("#tab-compare")
    shows(page, "compare")
    page.fill("#prompt", "not sent yet")
    asked = requests_to(page, "/api/score")
    page.go_back()
    shows(page, "explain")
    expect(page.locator("#passage .token").nth(3)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#text")).to_have_value(TEXT)
    page.go_forward()
    shows(page, "compare")
    expect(page.locator("#prompt")).to_have_value("not sent yet")
    page.click("#tab-explain")
    shows(page, "explain")
    assert "#explain?text=" in page.url
    page.go_back()
    shows(page, "compare")
    assert asked == []  # the text that is shown is not scored again


def test_back_brings_a_beginning_and_its_continuations(page: Page, url: str) -> None:
    page.goto(f"{url}#compare")
    page.fill("#prompt", "the cat")
    page.fill("#length", "4")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Choose a token", timeout=20_000)
    written = page.locator("#knn-text").inner_text()
    page.click("#tab-explain")
    shows(page, "explain")
    page.go_back()
    shows(page, "compare")
    assert "#compare?prompt=the+cat&length=4" in page.url
    assert page.locator("#knn-text").inner_text() == written


def test_a_late_answer_does_not_take_the_visitor_away(page: Page, url: str) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.goto(url)
    page.locator("#panel .neighbors li").first.wait_for()  # the passage that it opens on
    page.route("**/api/score", hold)
    page.fill("#text", TEXT)
    page.click("#go")
    page.click("#tab-compare")
    shows(page, "compare")
    expect(page.locator("#go")).to_be_disabled()
    held[0].continue_()
    expect(page.locator("#go")).to_be_enabled(timeout=20_000)
    shows(page, "compare")
    assert page.url.endswith("#compare")
    page.click("#tab-explain")
    shows(page, "explain")
    expect(page.locator("#source")).to_have_text("")
    assert "#explain?text=" in page.url


def test_a_link_to_a_text_is_followed_within_the_page(page: Page, url: str) -> None:
    explain(page, url)
    link, first = page.url, page.locator("#passage").inner_text()
    page.select_option("#example", "A story")
    expect(page.locator("#passage")).to_contain_text("river")
    page.evaluate("link => { location.href = link; }", link)
    expect(page.locator("#source")).to_have_text("", timeout=20_000)
    assert page.locator("#passage").inner_text() == first


def test_examples_have_links_too(page: Page, url: str) -> None:
    page.goto(f"{url}#explain?example=A+story&lambda=0.5&token=2")
    expect(page.locator("#example")).to_have_value("A story")
    expect(page.locator("#lambda-value")).to_have_text("0.500")
    expect(page.locator("#passage .token").nth(2)).to_have_attribute("aria-pressed", "true")
    before = page.url
    page.reload()
    expect(page.locator("#lambda-value")).to_have_text("0.500")
    assert page.url == before
