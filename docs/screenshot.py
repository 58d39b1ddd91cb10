"""The picture in the README: the explorer's first example in Chromium, light and dark.

    .venv/bin/python docs/screenshot.py

The page is the one that `knnlm serve` shows; its examples come from docs/explorer_examples.py, so
no model is needed here."""

import shutil
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src/knnlm/integrations/explorer/index.html"
IMAGES = ROOT / "docs" / "images"
_MODES: dict[str, Literal["light", "dark"]] = {
    "explorer.png": "light",
    "explorer-dark.png": "dark",
}


def main() -> None:
    """Write both pictures."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "install chromium first"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, mode in _MODES.items():
            page = browser.new_page(
                viewport={"width": 1180, "height": 1400},
                color_scheme=mode,
                device_scale_factor=1.5,
            )
            page.goto(PAGE.as_uri())
            page.locator("#panel .neighbors li").first.wait_for()
            page.evaluate("() => document.activeElement.blur()")
            top = page.locator(".controls").bounding_box()
            neighbor = page.locator("#panel .neighbors li").nth(1).bounding_box()
            assert top is not None
            assert neighbor is not None
            clip = {
                "x": 0,
                "y": top["y"] - 12,
                "width": 1180,
                "height": neighbor["y"] + neighbor["height"] - top["y"] + 14,
            }
            page.screenshot(path=IMAGES / name, clip=clip)  # type: ignore[arg-type]
        browser.close()


if __name__ == "__main__":
    main()
