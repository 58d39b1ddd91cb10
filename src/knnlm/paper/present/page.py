"""Sections as one HTML page that needs nothing else: no script, no network. Knows nothing of what
they say."""

import html
import re
from collections.abc import Sequence

from knnlm.paper.present.content import Figure, Section, Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #666; --line: #ddd; --good: #00694a;
  --bad: #a63c00; --band: #f6f6f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e3; --paper: #161616; --soft: #a5a29d; --line: #3a3a3a;
  --good: #4cc9a0; --bad: #f08a4b; --band: #1f1f1f; --series-1: #56b4e9; --series-2: #e69f00; } }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 78rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { margin-top: 2.6rem; font-size: 1.2rem;
  border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
p { max-width: 46rem; } nav ul { columns: 2; padding-left: 1.1rem; font-size: .93rem; } a { color: inherit; }
.scroll { overflow-x: auto; margin: 1rem 0; } table { border-collapse: collapse; font-size: .84rem; }
th, td { padding: .28rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
th { white-space: normal; vertical-align: bottom; } .words, .sentences { text-align: left; }
.sentences { white-space: normal; min-width: 12rem; } .interval { color: var(--soft); font-size: .92em; }
th { position: sticky; top: 0; background: var(--paper); font-weight: 600; }
tbody tr:nth-child(even) { background: var(--band); }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
.open { color: var(--soft); font-weight: 600; }
figure { margin: 1.2rem 0; max-width: 44rem; overflow-x: auto; }
figcaption, .note { color: var(--soft); font-size: .88rem; }
svg.plot { width: 100%; min-width: 34rem; height: auto; } code { font-size: .92em; }
@media print { body { max-width: none; font-size: 11px; } .scroll { overflow: visible; }
  figure { break-inside: avoid; } }
"""
_VERDICTS = {
    "holds": "holds",
    "does not hold": "fails",
    "undecided": "open",
    "no question": "open",
    "ruled out": "holds",
    "not ruled out": "fails",
    "a part at most": "open",
    "not measured": "open",
    "gone without it": "fails",
    "there without it": "holds",
    "pushes that way": "fails",
    "does not": "holds",
}
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_INTERVAL = re.compile(r" (\([^()]+ to [^()]+\))$")
_BELOW = r'<br><span class="interval">\1</span>'


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    links = "".join(
        f'<li><a href="#s{i}">{html.escape(s.title)}</a></li>' for i, s in enumerate(sections)
    )
    body = "\n".join(_section(i, s) for i, s in enumerate(sections))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n<nav><ul>{links}</ul></nav>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _section(place: int, section: Section) -> str:
    parts = [f'<h2 id="s{place}">{html.escape(section.title)}</h2>']
    for part in section.parts:
        if isinstance(part, Table):
            parts.append(_table(part))
        elif isinstance(part, Figure):
            parts.append(
                f"<figure>{part.svg}<figcaption>{html.escape(part.caption)}</figcaption></figure>"
            )
        else:
            parts.append(f"<p>{_inline(part)}</p>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    kinds = ["" if kind == "numbers" else f' class="{kind}"' for kind in table.kinds()]
    head = "".join(
        f'<th scope="col"{k}>{html.escape(c)}</th>'
        for c, k in zip(table.columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(c, k) for c, k in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}'


def _cell(text: str, kind: str) -> str:
    verdict = _BOLD.fullmatch(text)
    if verdict:
        name = _VERDICTS[verdict[1].partition(":")[0]]
        return f'<td{kind}><span class="{name}">{html.escape(verdict[1])}</span></td>'
    return f"<td{kind}>{_INTERVAL.sub(_BELOW, html.escape(text))}</td>"


def _inline(text: str) -> str:
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", _BOLD.sub(r"<strong>\1</strong>", code))
