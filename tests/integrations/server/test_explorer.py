"""The explorer in a real browser: what a visitor does, against what the server says."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect, sync_playwright

from knnlm import KNNLM, Datastore
from knnlm.integrations.server.pages import FOLDER
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import K, write_documents
from tests.integrations.server.test_score import TEXT

pytestmark = pytest.mark.pipeline
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: the browser tests are left out (apt install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing may go wrong unnoticed."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened, problems = context.new_page(), list[str]()

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            problems.append(message.text)

    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", note)
    yield opened
    context.close()
    assert problems == []


def explain(page: Page, url: str, text: str = TEXT) -> None:
    page.goto(url)
    page.fill("#text", text)
    page.click("#go")
    expect(page.locator("#go")).to_be_enabled(timeout=20_000)
    expect(page.locator("#status")).to_have_text("")


def perplexity(page: Page, which: str = "mixed") -> float:
    return float(page.locator("#perplexity").get_attribute(f"data-{which}") or "nan")


def wanted_perplexity(url: str, text: str = TEXT, **knn: Any) -> float:
    tokens = ask(url, "/api/score", {"text": text, "knn": knn}).json["tokens"]
    return math.exp(-sum(token["logprob"] for token in tokens) / len(tokens))


def set_slider(page: Page, name: str, value: float) -> None:
    page.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        value,
    )


def test_it_works_from_a_file_too(page: Page) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    expect(page.locator("#panel .neighbors li").first).to_be_visible()
    expect(page.locator("#source")).to_contain_text("Recorded: SmolLM2")
    names = page.locator("#example optgroup option").all_inner_texts()
    assert len(names) >= 3
    for name in names:
        page.select_option("#example", name)
        expect(page.locator("#panel .neighbors li").first).to_be_visible()
        assert perplexity(page) > 0
    expect(page.locator("#go")).to_be_disabled()
    expect(page.locator("#notice")).to_contain_text("opened from a file")
    page.goto((FOLDER / "findings.html").as_uri())
    expect(page.locator("main img")).to_have_count(6)


def test_on_a_host_without_a_model_it_shows_its_examples(page: Page, url: str) -> None:
    page.route("**/api/info", lambda route: route.fulfill(status=404, body="not here"))
    page.goto(url)
    expect(page.locator("#notice")).to_contain_text("There is no model behind this page")
    expect(page.locator("#go")).to_be_disabled()
    expect(page.locator("#panel .neighbors li").first).to_be_visible()


def test_a_pasted_text_is_explained(page: Page, url: str) -> None:
    explain(page, url)
    answer = ask(url, "/api/score", {"text": TEXT}).json
    spans = page.locator("#passage .token")
    expect(spans).to_have_count(len(answer["tokens"]))
    assert perplexity(page) == pytest.approx(wanted_perplexity(url), rel=1e-4)
    gains = [token["logprob"] - token["lm_logprob"] for token in answer["tokens"]]
    for n in (0, 3, len(gains) - 1):
        kind = spans.nth(n).get_attribute("class") or ""
        assert ("up" in kind.split()) == (gains[n] > 0)
        assert ("down" in kind.split()) == (gains[n] < 0)


def test_a_token_shows_its_neighbors(page: Page, url: str) -> None:
    explain(page, url)
    answer = ask(url, "/api/score", {"text": TEXT}).json["tokens"][4]
    page.locator("#passage .token").nth(4).click()
    expect(page.locator("#passage .token").nth(4)).to_have_attribute("aria-pressed", "true")
    for kind, is_target in (("hits", True), ("others", False)):
        shown = page.locator(f"#panel .{kind} li")
        near = [each for each in answer["neighbors"] if each["is_target"] == is_target]
        for n, neighbor in enumerate(near[: shown.count()]):
            expect(shown.nth(n)).to_contain_text(neighbor["document"])
        expect(shown.locator("mark.hit")).to_have_count(shown.count() if is_target else 0)
    assert page.locator("#panel .tops ol").count() == 3


@pytest.mark.parametrize(
    ("slider", "value", "knn"),
    [
        ("lambda", 0.0, {"lambda": 0.0}),
        ("lambda", 0.85, {"lambda": 0.85}),
        ("tau", 2.0, {"tau": 4.0}),
        ("tau", -1.5, {"tau": 2**-1.5}),
        ("k", 0.0, {"k": 1}),
        ("k", 0.5, {"k": 4}),
    ],
)
def test_a_slider_gives_what_the_server_gives(
    page: Page, url: str, slider: str, value: float, knn: dict[str, Any]
) -> None:
    explain(page, url)
    tuned = ask(url, "/api/info").json["settings"]
    if "tau" in knn:
        knn = {"tau": knn["tau"] * tuned["tau"]}
    set_slider(page, slider, value)
    assert perplexity(page) == pytest.approx(wanted_perplexity(url, **knn), rel=1e-4)
    page.click("#reset")
    assert perplexity(page) == pytest.approx(wanted_perplexity(url), rel=1e-4)


def test_a_document_left_out_is_as_if_it_was_never_stored(
    page: Page, url: str, tmp_path: Path, server_model: Path
) -> None:
    explain(page, url)
    page.select_option("#without", label="03.txt")
    tau = ask(url, "/api/info").json["settings"]["tau"]
    others = write_documents(tmp_path / "docs", without=["03.txt"])
    model = KNNLM(Datastore.build(server_model, others, tmp_path / "store"), lam=0.4, tau=tau, k=K)
    logs = [token.mixed_logprob for token in model.explain(TEXT).tokens]
    assert perplexity(page) == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=1e-4)
    expect(page.locator("#perplexity")).to_contain_text("03.txt is left out of the vote.")
    expect(page.locator("#perplexity")).not_to_contain_text("approximate")
    expect(page.locator("#panel .neighbors li", has_text="03.txt")).to_have_count(0)
    page.get_by_role("button", name="take 03.txt back").click()
    assert perplexity(page) == pytest.approx(wanted_perplexity(url), rel=1e-4)


def test_spans_that_follow_a_document_are_marked(page: Page, url: str) -> None:
    explain(page, url)
    spans = page.locator("#runs li")
    expect(spans.first).to_be_visible()
    told = spans.first.inner_text()
    assert re.search(r"follows \d\d\.txt for \d+ tokens", told)
    assert page.locator("#passage .in-run").count() >= 5


def test_a_link_brings_everything_back(page: Page, url: str) -> None:
    explain(page, url)
    set_slider(page, "lambda", 0.7)
    set_slider(page, "k", 0.5)
    page.select_option("#without", label="05.txt")
    page.locator("#passage .token").nth(6).click()
    before, link = perplexity(page), page.url
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#passage .token").nth(6)).to_have_attribute("aria-pressed", "true")
    assert perplexity(page) == pytest.approx(before, rel=1e-9)
    expect(page.locator("#without option:checked")).to_have_text("05.txt")
    for broken in (
        "#explain?lambda=x&k=-4&tau=0&token=9.5",
        "#nothing?text=",
        "#explain?example=?",
    ):
        page.goto("about:blank")
        page.goto(url + broken)
        expect(page.locator("#passage .token").first).to_be_visible()


def test_the_keyboard_is_enough(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("#text").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(TEXT)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#source")).to_have_text("", timeout=20_000)
    expect(page.locator("#go")).to_be_enabled(timeout=20_000)
    page.locator("#passage [tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#passage .token").nth(2)).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("#passage .token").last).to_be_focused()
    page.locator("#lambda").focus()
    before = perplexity(page)
    page.keyboard.press("ArrowRight")
    assert perplexity(page) != before


def test_errors_are_told(page: Page, url: str) -> None:
    page.goto(url)
    page.fill("#text", "   ")
    page.click("#go")
    expect(page.locator("#status")).to_have_text("Paste a text first.")
    page.fill("#text", "the cat " * 3000)
    page.click("#go")
    expect(page.locator("#status")).to_contain_text("are scored at most: shorten it")
    page.route("**/api/score", lambda route: route.abort())
    page.fill("#text", TEXT)
    page.click("#go")
    expect(page.locator("#status")).to_contain_text("does not answer")
    page.unroute("**/api/score")
    busy = json.dumps({"error": {"message": "too many requests wait"}})
    page.route("**/api/score", lambda route: route.fulfill(status=429, body=busy))
    page.click("#go")
    expect(page.locator("#status")).to_contain_text("try again in a moment")


def test_a_token_is_asked_for_once(page: Page, start: Any) -> None:
    with start(token="a-secret-of-some-length") as url:
        page.goto(url)
        page.get_by_label("The token of this server").fill("a-secret-of-some-length")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#about")).to_contain_text("entries")
        explain(page, url)


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)><script>alert(1)</script>",
        "\u202eright to left שלום",
        "👩‍👩‍👧 🎉",
        "a\x07b\x1bc",
        "x" * 100,
    ],
)
def test_any_text_is_shown_as_text(page: Page, url: str, text: str) -> None:
    alerts: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.goto(url)
    page.fill("#text", text)
    page.click("#go")
    expect(page.locator("#go")).to_be_enabled(timeout=20_000)
    assert alerts == []
    assert page.locator("#passage img, #passage script").count() == 0
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 1200


def test_ten_thousand_letters_without_a_space_do_not_break_the_page(page: Page) -> None:
    page.goto((FOLDER / "index.html").as_uri())
    page.evaluate(
        """() => {
          const answer = structuredClone(explain.state.result);
          answer.tokens[0].text = "x".repeat(10000);
          explain.show(answer, { example: "long" }, {});
        }"""
    )
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1200


def test_two_continuations_stream_side_by_side(page: Page, url: str, knnlm_model: KNNLM) -> None:
    page.goto(f"{url}#compare")
    page.fill("#prompt", "the cat")
    page.fill("#length", "12")
    page.click("#continue-go")
    expect(page.locator("#compare-status")).to_contain_text("Choose a token", timeout=20_000)
    wanted = knnlm_model.generate("the cat", max_new_tokens=12, compare=True)
    assert page.locator("#base-text").inner_text().replace("↵", "").startswith("the cat")
    shown = page.locator("#knn-text .token")
    expect(shown).to_have_count(len(wanted.tokens))
    shown.nth(2).click()
    expect(page.locator("#compare-panel .neighbors li").first).to_contain_text(".txt")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["", "#compare", "findings.html"])
def test_axe_finds_no_serious_violation(browser: Browser, url: str, scheme: Any, view: str) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{url}/{view}")
    page.locator("main").wait_for()
    if view == "":
        page.locator("#panel .neighbors li").first.wait_for()
    found = Axe().run(page).response["violations"]
    serious = [
        (each["id"], [n["target"] for n in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    context.close()
    assert serious == []


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    for view in ("", "#compare", "findings.html"):
        page.goto(f"{url}/{view}")
        page.locator("main").wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, view
    page.goto(url)
    page.locator("#panel .neighbors li").first.wait_for()
    tops = [page.locator(id).bounding_box() for id in ("#passage", "#panel", "#lists")]
    places = [box["y"] for box in tops if box is not None]
    assert len(places) == 3
    assert places == sorted(places)  # who voted is told right below the text
    context.close()


def test_sliders_are_quick(page: Page) -> None:
    """No time is asserted: every slider needs one pass over the votes, and no request."""
    page.goto((FOLDER / "index.html").as_uri())
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for value in (0.1, 0.5, 0.9):
        set_slider(page, "lambda", value)
        set_slider(page, "k", value)
    assert requests == []
