"""The picture of one explained token in the README: a real continuation, drawn by Chromium.

    .venv/bin/python docs/screenshot.py STORE 'PROMPT' [--tokens 6] [--token 0]

Writes docs/images/explained.png and explained-dark.png, and what was shown as JSON beside them.
"""

import argparse
import html
import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from knnlm import KNNLM

IMAGES = Path(__file__).parent / "images"
_STYLE = """
body { margin: 0; padding: 22px 26px; width: 880px; font: 17px/1.5 system-ui, sans-serif;
       background: var(--paper); color: var(--ink); }
.light { --paper: #fff; --ink: #1b1e23; --soft: #555b66; --bar: #0072b2; --mark: #e3f0f8; }
.dark { --paper: #14171c; --ink: #e7e9ed; --soft: #a5adba; --bar: #56b4e9; --mark: #16324a; }
b.token { background: var(--mark); border-bottom: 3px solid var(--bar); padding: 1px 3px; }
.soft { color: var(--soft); font-size: 15px; }
.bar { display: inline-block; height: 13px; background: var(--bar); vertical-align: middle; }
td { padding: 2px 12px 2px 0; vertical-align: middle; white-space: nowrap; }
.context { font: 14.5px/1.45 ui-monospace, Menlo, monospace; }
h4 { margin: 14px 0 4px; font-size: 15px; color: var(--soft); font-weight: 600; }
"""


def page(mode: str, prompt: str, before: str, token: dict[str, Any], names: dict[str, str]) -> str:
    """The page of one token."""

    def bar(share: float) -> str:
        return f'<td><span class="bar" style="width:{max(2, 260 * share):.0f}px"></span></td>'

    shares = {
        name: math.exp(token[f"{field}_logprob"])
        for name, field in (
            ("language model", "lm"),
            ("neighbors", "component"),
            ("mixed", "mixed"),
        )
    }
    rows = "".join(
        f"<tr><td>{name}</td>{bar(share)}<td>{100 * share:.1f} %</td></tr>"
        for name, share in shares.items()
    )
    voted = "".join(
        f"<tr><td>{100 * near['weight']:.1f} %</td>"
        f'<td class="context">…{html.escape(near["before"][-58:])}'
        f'<b class="token">{html.escape(near["token"])}</b></td>'
        f'<td class="soft">{html.escape(near["document"])}</td></tr>'
        for near in token["neighbors"][:3]
    )
    return (
        f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style><body class="{mode}">'
        f'<div>{html.escape(prompt + before)}<b class="token">{html.escape(token["text"])}</b>'
        f"</div><h4>How likely was this token?</h4><table>{rows}</table>"
        f"<h4>Who voted: the nearest contexts in {names['text']}</h4><table>{voted}</table>"
    )


def shoot(content: str, out: Path) -> None:
    """A picture of a page."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(content, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=932,340"]
        options += ["--force-device-scale-factor=1.5", f"--screenshot={out}"]
        command = ["chromium", *options, file.as_uri()]
        subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Explain, draw and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=6)
    parser.add_argument("--token", type=int, default=0)
    parser.add_argument("--text", default="the stored text")
    given = parser.parse_args()
    model = KNNLM(given.store)
    generation = model.generate(given.prompt, max_new_tokens=given.tokens)
    tokens = generation.explain().as_json()
    token = tokens[given.token]
    before = "".join(each["text"] for each in tokens[: given.token])
    IMAGES.mkdir(exist_ok=True)
    for mode, name in (("light", "explained"), ("dark", "explained-dark")):
        shoot(page(mode, given.prompt, before, token, {"text": given.text}), IMAGES / f"{name}.png")
    shown = {"prompt": given.prompt, "lambda": model.settings.lam, "token": token}
    (IMAGES / "explained.json").write_text(
        json.dumps(shown, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
