"""The report as one HTML document that needs nothing else: no network and no other file.

It escapes and arranges; the words come from `words` and `columns`, the digits from `formats`.
"""

import base64
import hashlib
import html
from importlib import resources
from itertools import groupby

from knnlm.report import columns, formats, passage, plots, words
from knnlm.report.content import Page, Row


def render(page: Page) -> str:
    """The whole document; the same page gives the same text."""
    script = _static("page.js")
    sections = (
        _header(page),
        _equation(page),
        _table(page),
        _plots(page),
        passage.section(page.passage) if page.passage else "",
        _facts(page),
        _commands(page),
        _footer(page),
    )
    body = "\n".join(section for section in sections if section)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{html.escape(page.title)}</title>
<style>
{_static("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _static(name: str) -> str:
    return resources.files("knnlm.report").joinpath("static", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Nothing may be loaded and no script may run but ours, even if some text were not escaped."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _header(page: Page) -> str:
    return f"""<header>
<p class="kicker">{html.escape(page.title)}</p>
<h1>{html.escape(words.headline(page))}</h1>
<p>{html.escape(words.circumstances(page))} {words.PERPLEXITY}</p>
</header>"""


def _equation(page: Page) -> str:
    place = words.best(page)
    row = page.rows[place] if place is not None else None
    symbols = (
        ("P", "the probability given to the next token"),
        ("p<sub>LM</sub>", "what the language model says by itself"),
        (
            "p<sub>kNN</sub>",
            "the vote of the stored contexts nearest to this one: each votes for the token "
            "that followed it, and nearer ones count more",
        ),
        ("λ", "the weight of that vote" + _value(row.lam if row else None)),
        (
            "τ",
            "the temperature in the vote: small trusts the nearest, large lets all "
            "count alike" + _value(row.temperature if row else None),
        ),
    )
    entries = "".join(f"<div><dt><i>{name}</i></dt><dd>{text}</dd></div>" for name, text in symbols)
    return f"""<section>
<p class="equation"><i>P</i> = (1 − λ) · <i>p</i><sub>LM</sub> + λ · <i>p</i><sub>kNN</sub></p>
<dl class="symbols">{entries}</dl>
</section>"""


def _value(value: float | None) -> str:
    return "" if value is None else f" (here {formats.significant(value)})"


def _table(page: Page) -> str:
    all_columns = columns.columns()
    groups = "".join(
        f'<th scope="colgroup" class="first" colspan="{len(list(members))}">{html.escape(group)}</th>'
        for group, members in groupby(all_columns, key=lambda column: column.group)
    )
    names = "".join(
        f'<th scope="col" class="{kind}">'
        f'<abbr title="{html.escape(column.help)}">{html.escape(column.name)}</abbr></th>'
        for column, kind in zip(all_columns, _kinds(all_columns), strict=True)
    )
    best = words.best(page)
    rows = "\n".join(_row(row, place == best) for place, row in enumerate(page.rows))
    meanings = "".join(
        f"<div><dt>{html.escape(column.name)}</dt><dd>{html.escape(column.help)}</dd></div>"
        for column in all_columns
    )
    return f"""<section aria-labelledby="table-title">
<h2 id="table-title">Every setting</h2>
<div class="scroll" tabindex="0" role="region" aria-labelledby="table-title"><table>
<thead><tr>{groups}</tr><tr>{names}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<details><summary>What the columns mean</summary><dl class="symbols">{meanings}</dl></details>
</section>"""


def _kinds(all_columns: tuple[columns.Column, ...]) -> list[str]:
    """The classes of each column's cells: how they align, and whether a group starts here."""
    kinds, group = [], ""
    for column in all_columns:
        kind = "number" if column.numeric else "name"
        kinds.append(kind if column.group == group else f"{kind} first")
        group = column.group
    return kinds


def _row(row: Row, is_best: bool) -> str:
    cells = []
    all_columns = columns.columns()
    for place, (column, kind) in enumerate(zip(all_columns, _kinds(all_columns), strict=True)):
        cell = column.cell(row)
        note = f"<small>{html.escape(cell.note)}</small>" if cell.note else ""
        badge = ' <span class="badge">best</span>' if is_best and place == 0 else ""
        tag, scope = ("th", ' scope="row"') if place == 0 else ("td", "")
        cells.append(f'<{tag}{scope} class="{kind}">{html.escape(cell.text)}{badge}{note}</{tag}>')
    return f"<tr{' class=best' if is_best else ''}>{''.join(cells)}</tr>"


def _plots(page: Page) -> str:
    base = words.base_level(page)
    dashed = " Below the dashed line, retrieval helps." if base is not None else ""
    figures = []
    if page.temperature_curves:
        caption = (
            "<b>How sharply should neighbours vote?</b> At the left only the nearest neighbour "
            f"counts, at the right all count alike. The mark is the best τ.{dashed}"
        )
        figures.append(
            _figure(
                plots.temperature_plot(page.temperature_curves, base),
                caption,
                words.lowest(page.temperature_curves, "τ"),
            )
        )
    if page.lambda_curves:
        caption = (
            "<b>How much should neighbours weigh?</b> λ = 0 is the language model alone, λ = 1 the "
            "neighbours alone; together they can be better than either. The mark is the best λ."
        )
        figures.append(
            _figure(
                plots.lambda_plot(page.lambda_curves, base),
                caption,
                words.lowest(page.lambda_curves, "λ"),
            )
        )
    if not figures:
        return ""
    return f'<section><h2>The two knobs</h2><div class="figures">{"".join(figures)}</div></section>'


def _figure(svg: str, caption: str, lowest: str) -> str:
    return f"<figure>{svg}<figcaption>{caption} {html.escape(lowest)}</figcaption></figure>"


def _facts(page: Page) -> str:
    if not page.facts:
        return ""
    entries = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in page.facts
    )
    return f'<section><h2>Facts</h2><dl class="facts">{entries}</dl></section>'


def _commands(page: Page) -> str:
    if not page.commands:
        return ""
    lines = "".join(f"<pre><code>{html.escape(line)}</code></pre>" for line in page.commands)
    return f"<section><h2>What to try next</h2>{lines}</section>"


def _footer(page: Page) -> str:
    return f"<footer>This page was made by <code>{html.escape(page.command)}</code></footer>"
