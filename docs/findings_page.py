"""Writes the explorer's tab "Findings" from docs/why.md: the same words, the same figures.

`make docs` runs it after docs/write.py, a test checks it. Links to other files of the repository
become plain text: the page is served without them."""

import re
from pathlib import Path

import markdown_it

ROOT = Path(__file__).parents[1]
EXPLORER = ROOT / "src" / "knnlm" / "integrations" / "explorer"
_FIGURES = "results/laptop/figures/"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>knnlm: findings</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="explorer.css">
</head>
<body>
<header>
<p class="brand">knnlm explorer</p>
<nav aria-label="Views">
<a href="index.html#explain">Explain a text</a>
<a href="index.html#compare">Continue a text</a>
<a href="findings.html" aria-current="page">Findings</a>
</nav>
</header>
<main class="findings">
{body}</main>
</body>
</html>
"""


def figures() -> list[Path]:
    """The figures that docs/why.md shows."""
    text = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    names = re.findall(rf"\({re.escape(_FIGURES)}([\w-]+\.svg)\)", text)
    return [ROOT / "docs" / _FIGURES / name for name in dict.fromkeys(names)]


def page() -> str:
    """The page."""
    text = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    text = text.replace(_FIGURES, "figures/")
    text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)[^)]*\)", r"\1", text)
    body = markdown_it.MarkdownIt().enable("table").render(text)
    return _PAGE.format(body=body)


def write() -> None:
    """Write the page and its figures."""
    (EXPLORER / "findings.html").write_text(page(), encoding="utf-8")
    folder = EXPLORER / "figures"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for figure in figures():
        (folder / figure.name).write_bytes(figure.read_bytes())


if __name__ == "__main__":
    write()
