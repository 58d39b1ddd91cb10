"""Documents as one HTML page that needs nothing else: no network and no other file.

Templates are in templates/, the style sheet and the script in static/. Every text is escaped by
Jinja2, and the page's security policy lets no script run but ours even if one were not. Fragments
for notebooks carry their styles inline and have no script.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import chain, count, groupby
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from knnlm import formats
from knnlm.evaluation import ExplainedToken
from knnlm.report import tokens
from knnlm.report.document import Block, Document, Figure, Table, TokenView

_CONTENTS_FROM = 8  # sections from which a page lists them at its top
_NEWLINE = Markup('<i class="newline"></i>\n')  # CSS draws the sign: copied text has none
_SYMBOL = re.compile(r"(?<![A-Za-z])([Pp])(?:_([A-Za-z]+))?(?![A-Za-z])")
_RGB = {"up": "0 114 178", "down": "230 140 0"}  # Okabe-Ito blue and orange


def render(document: Document) -> str:
    """The whole page; the same document gives the same text."""
    prefixes = chain([""], (f"v{i}-" for i in count(2)))
    introduction = _arranged(document.introduction, prefixes)
    sections = [
        (section.title, _arranged(section.blocks, prefixes)) for section in document.sections
    ]
    blocks = [*introduction, *(block for _, blocks in sections for block in blocks)]
    script = _static("page.js") if any(isinstance(block, _Reader) for block in blocks) else ""
    template = _environment().get_template("page.html")
    return template.render(
        document=document,
        introduction=introduction,
        sections=sections,
        contents=len(sections) >= _CONTENTS_FROM,
        style=Markup(_static("page.css")),
        script=Markup(script),
        policy=Markup(_policy(script)),
    )


def table_fragment(table: Table) -> str:
    """A table as an HTML fragment with inline styles, for a notebook in light or dark."""
    return _environment().get_template("table_fragment.html").render(table=table)


def explanation_fragment(
    explained: Sequence[ExplainedToken], *, prompt: str = "", neighbors: int = 3
) -> str:
    """An explained text as an HTML fragment with inline styles, for a notebook in light or dark.

    Tokens that retrieval made more likely are blue with a solid underline, those that it made less
    likely orange with a dotted one. Pointing at a token shows its numbers and strongest neighbors.

    Args:
        explained: The tokens of the text.
        prompt: Text before them, shown without color.
        neighbors: How many neighbors are shown for each token.
    """
    shown = [(token, _tooltip(token, neighbors)) for token in explained]
    template = _environment().get_template("explanation_fragment.html")
    return template.render(tokens=shown, prompt=prompt)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("knnlm.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "type_name": lambda block: type(block).__name__.strip("_"),
        "trusted": Markup,
        "headings": _headings,
        "groups": _groups,
        "symbol": _symbol,
        "lines": _lines,
        "shade": lambda token: tokens.shade(tokens.gain(token)),
        "inline_shade": _inline_shade,
        "token_text": tokens.token_text,
        "panel_data": tokens.panel_data,
    }
    environment.globals["legend"] = [
        (formats.signed(nats, 0), tokens.shade(nats))
        for nats in (-tokens.CLIP, -tokens.CLIP / 2, 0.0, tokens.CLIP / 2, tokens.CLIP)
    ]
    environment.globals["clip"] = f"{tokens.CLIP:g}"
    return environment


def _static(name: str) -> str:
    return resources.files("knnlm.report").joinpath("static", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Nothing is loaded and no script runs but ours, even if some text were not escaped."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; " if script else ""
    return (
        f"default-src 'none'; {allowed}style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _printable(value: Any) -> Any:
    """Plain text without control characters; markup is left as it is."""
    return formats.printable(value) if type(value) is str else value


class _Figures(NamedTuple):
    """Adjacent figures of half width."""

    figures: list[Figure]


class _Reader(NamedTuple):
    """A token view and the prefix of its element ids; the first has none: page.html#t12."""

    tokens: tuple[ExplainedToken, ...]
    prefix: str


_Arranged = Block | _Figures | _Reader


def _arranged(blocks: Iterable[Block], prefixes: Iterator[str]) -> list[_Arranged]:
    """Blocks as the templates take them."""
    arranged: list[_Arranged] = []
    for block in blocks:
        if isinstance(block, TokenView):
            arranged.append(_Reader(block.tokens, next(prefixes)))
        elif isinstance(block, Figure) and block.half_width:
            last = arranged[-1] if arranged else None
            if isinstance(last, _Figures):
                last.figures.append(block)
            else:
                arranged.append(_Figures([block]))
        else:
            arranged.append(block)
    return arranged


class _Heading(NamedTuple):
    name: str
    help: str
    kind: str
    classes: str
    """Of the column's cells: its kind, and `first` where a group starts."""


def _headings(table: Table) -> list[_Heading]:
    headings, group = [], ""
    for column, kind in zip(table.columns, table.kinds(), strict=True):
        classes = kind if column.group == group else f"{kind} first"
        headings.append(_Heading(column.name, column.help, kind, classes))
        group = column.group
    return headings


def _groups(table: Table) -> list[tuple[str, int]]:
    """Each group of columns and how many it has; empty if no column has a group."""
    names = [column.group for column in table.columns]
    return [(name, len(list(same))) for name, same in groupby(names)] if any(names) else []


def _symbol(text: str) -> Markup:
    """`p_LM` as an italic p with a subscript."""

    def mark(match: re.Match[str]) -> str:
        return f"<i>{match[1]}</i>" + (f"<sub>{match[2]}</sub>" if match[2] else "")

    return Markup(_SYMBOL.sub(mark, str(escape(formats.printable(text)))))


def _lines(text: str) -> Markup:
    """A token's text, with a sign before each line end."""
    lines = formats.printable(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return _NEWLINE.join(lines)


def _inline_shade(token: ExplainedToken) -> str:
    direction, share = tokens.shade(tokens.gain(token))
    if direction == "same":
        return ""
    line = "solid" if direction == "up" else "dotted"
    background = f"rgb({_RGB[direction]} / {0.55 * share:.2f})"
    return f"background:{background};border-bottom:2px {line} rgb({_RGB[direction]} / {share:.2f})"


def _tooltip(token: ExplainedToken, neighbors: int) -> str:
    """A token's numbers and its strongest neighbors, one on each line."""
    lines = [tokens.token_text(token)]
    for neighbor in tokens.strongest(token)[:neighbors]:
        context = tokens.neighbor_context(neighbor, 60)
        text = f"{context}⟦{formats.visible(neighbor.token)}⟧"
        source = formats.visible(neighbor.document)
        lines.append(f"{formats.percent(neighbor.weight)}  {text}  ({source})")
    return "\n".join(lines)
