"""Where things are on the page, and whether they can be seen: phones, wide screens, dark ones."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from playwright.sync_api import Browser, Page, expect

from tests.integrations.server import test_explorer

pytestmark = pytest.mark.pipeline
browser, page = test_explorer.browser, test_explorer.page
PHONE = {"width": 390, "height": 844}
LONG = "\n".join(f"line {n}" for n in range(60))


@pytest.fixture
def phone(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page on a phone."""
    opened = []

    def new(**options: Any) -> Page:
        context = browser.new_context(viewport=PHONE, has_touch=True, **options)  # type: ignore[arg-type]
        opened.append(context)
        return context.new_page()

    yield new
    for context in opened:
        context.close()


def open_page(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("#panel .neighbors li").first.wait_for(timeout=20_000)


def top(page: Page, selector: str) -> float:
    """Of an element, in pixels below the upper edge of the screen."""
    place = page.locator(selector).evaluate("node => node.getBoundingClientRect().top")
    return float(place)


def scrolled(page: Page) -> float:
    """How far the page is scrolled, once that has come to rest."""
    before = None
    while before != (now := page.evaluate("() => scrollY")):
        before = now
        page.wait_for_timeout(200)
    return float(now)


def scroll_behaviors(page: Page) -> list[str]:
    """How the page is scrolled by its scripts, as it happens."""
    asked: list[str] = []
    page.expose_function("noteScroll", lambda behavior: asked.append(behavior))
    page.add_init_script(
        """const scrollBy = window.scrollBy.bind(window);
           window.scrollBy = (options) => { noteScroll(options.behavior); scrollBy(options); };"""
    )
    return asked


@pytest.mark.parametrize(
    ("motion", "behavior"), [("reduce", "instant"), ("no-preference", "smooth")]
)
def test_a_tap_on_a_phone_brings_the_panel_into_view(
    phone: Callable[..., Page], url: str, motion: str, behavior: str
) -> None:
    page = phone(reduced_motion=motion)
    asked = scroll_behaviors(page)
    open_page(page, url)
    assert top(page, "#panel") > 0.6 * PHONE["height"]
    page.locator("#passage .token").nth(3).tap()
    scrolled(page)
    assert top(page, "#panel") < 0.45 * PHONE["height"]
    assert asked == [behavior]
    assert top(page, "#passage") < 0.4 * PHONE["height"]  # no further than it takes
    assert top(page, "#panel") > 0


def test_arrow_keys_do_not_scroll_away_from_the_text(phone: Callable[..., Page], url: str) -> None:
    page = phone(reduced_motion="reduce")
    asked = scroll_behaviors(page)
    open_page(page, url)
    page.locator("#passage [tabindex='0']").focus()
    page.keyboard.press("Home")
    before = scrolled(page)
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert scrolled(page) == before
    assert asked == []
    page.keyboard.press("Enter")
    assert top(page, "#panel") < 0.45 * PHONE["height"]


def test_a_wide_screen_is_not_scrolled(page: Page, url: str) -> None:
    open_page(page, url)
    page.locator("#passage .token").nth(3).click()
    assert scrolled(page) == 0


def continue_with(page: Page, url: str, text: str) -> None:
    """Both continuations are this text, a token a word."""
    logs = {"logprob": -1.0, "lm_logprob": -2.0, "component_logprob": -1.5}
    near = {
        "document": "03.txt",
        "text": " a",
        "before": "before",
        "after": "after",
        "weight": 0.1,
        "is_target": True,
        "cut_before": True,
        "cut_after": True,
    }
    knn: dict[str, Any] = {"id": 1, **logs, "neighbors": [near] * 10}
    events = [
        {"choices": [{"text": each, "finish_reason": None, "knn": [knn]}]}
        for each in text.splitlines(keepends=True)
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    page.route(
        "**/v1/completions", lambda r: r.fulfill(body=body, content_type="text/event-stream")
    )
    page.goto(f"{url}#compare")
    expect(page.locator("#prompt")).not_to_have_value("")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Choose a token")


@pytest.mark.parametrize("n", [0, 59])
def test_a_long_continuation_has_its_panel_in_view(page: Page, url: str, n: int) -> None:
    continue_with(page, url, LONG)
    page.locator("#knn-text .token").nth(n).click()
    assert 0 <= top(page, "#compare-panel") < 0.7 * 900
    expect(page.locator("#compare-panel .neighbors li").first).to_be_in_viewport()


@pytest.mark.parametrize("n", [0, 59])
def test_so_it_has_on_a_phone(phone: Callable[..., Page], url: str, n: int) -> None:
    page = phone()
    continue_with(page, url, LONG)
    token = page.locator("#knn-text .token").nth(n)
    token.tap()
    scrolled(page)
    assert top(page, "#compare-panel") < 0.45 * PHONE["height"]
    expect(page.locator("#compare-panel .chosen-token")).to_be_in_viewport()
    expect(token).to_be_in_viewport()


def test_a_beginning_out_of_the_datastore_says_so(page: Page, url: str) -> None:
    page.goto(f"{url}#compare")
    prompt, note = page.locator("#prompt"), page.locator("#beginning")
    expect(prompt).not_to_have_value("")
    told = "a document of this datastore: what follows them there may be retrieved"
    expect(note).to_contain_text(told)
    begun = prompt.input_value()
    page.fill("#prompt", "the cat")
    expect(note).to_have_text("")
    page.goto("about:blank")
    page.goto(f"{url}#compare?prompt={begun}&length=3")
    expect(prompt).to_have_value(begun)
    expect(note).to_contain_text(told)


def luminance(pixels: np.ndarray) -> np.ndarray:
    """Of sRGB colors between 0 and 1, as WCAG defines it."""
    linear = np.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4)
    weighted: np.ndarray = linear @ np.array([0.2126, 0.7152, 0.0722])
    return weighted


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_can_be_read_in_light_and_dark(browser: Browser, url: str, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(f"{url}/findings.html")
    for figure in page.locator("main img").all():
        light = luminance(imread(io.BytesIO(figure.screenshot()))[..., :3].reshape(-1, 3))
        paper = np.median(light)
        contrast = (np.maximum(light, paper) + 0.05) / (np.minimum(light, paper) + 0.05)
        assert contrast.max() > 10  # the ink of its text
        assert (contrast > 4.5).mean() > 0.01
    page.close()


def test_the_likeliest_tokens_stand_side_by_side(phone: Callable[..., Page], url: str) -> None:
    page = phone()
    open_page(page, url)
    boxes = [each.bounding_box() for each in page.locator(".tops > div").all()]
    assert len({box["y"] for box in boxes if box is not None}) == 1
    widths = [box["width"] for box in boxes if box is not None]
    assert len(widths) == 3
    assert max(widths) - min(widths) < 1
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_findings_keep_off_the_tabs(phone: Callable[..., Page], url: str) -> None:
    page = phone()
    page.goto(f"{url}/findings.html")
    tabs = page.locator("nav").bounding_box()
    assert tabs is not None
    assert top(page, "main h1") - tabs["y"] - tabs["height"] >= 12
