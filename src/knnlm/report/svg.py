"""Matplotlib drawings as SVG elements inside a page, in colors that the page decides.

Ink is `currentColor` and each series color a CSS variable with the Okabe-Ito color as its
fallback, so that the page decides what light, dark and print look like. The same drawing gives the
same bytes.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib import resources

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure

INK = "#010203"  # no other element uses this color, so it can be found again in the SVG
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe-Ito, those that are legible on white
MARKERS = ("o", "s", "^", "D")
DASHES = ("solid", (0, (4, 2)), (0, (1, 1.5)))
_COORDINATES = {"d", "x", "y", "points", "transform"}
_LONG = re.compile(r"-?\d+\.\d{3,}")  # a hundredth of a unit is far below a pixel
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "knnlm",  # the same curves give the same ids
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def drawing(
    name: str, description: str, size: tuple[float, float], draw: Callable[[Figure], None]
) -> str:
    """What `draw` puts on a figure, as an SVG element.

    Args:
        name: Keeps the element's ids apart from those of other drawings on the page.
        description: For readers who cannot see it.
        size: Width and height in inches.
        draw: Draws on an empty figure.
    """
    # The SVG writer reads some settings only from matplotlib's own; both contexts put them back.
    with matplotlib.style.context("default"), matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        for legend in figure.legends:
            for text in legend.get_texts():
                text.set_parse_math(False)  # a $ in a label is a $
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _inline(out.getvalue(), name, description)


def standalone(svg: str) -> str:
    """A drawing as a file of its own, in the colors of the reader's light or dark mode.

    The colors are those of the page's style sheet.
    """
    page, style = (_static(name) for name in ("page.css", "drawing.css"))
    colors = re.findall(r"--(?:ink|series-\d): #[0-9a-f]+;", page)
    light, dark = (" ".join(colors[start : start + 5]) for start in (0, 5))
    style = style.replace("LIGHT", light).replace("DARK", dark)
    opening, bracket, rest = svg.partition(">")
    return f"{opening}{bracket}<style>{style}</style>{rest}\n"


def _static(name: str) -> str:
    folder = resources.files("knnlm.report").joinpath("static")
    return folder.joinpath(name).read_text(encoding="utf-8")


def _inline(svg: str, name: str, description: str) -> str:
    """A matplotlib document as an element among others: own ids, no header, no global style."""
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for space in ("text", "tail"):
            if not (getattr(element, space) or "").strip():
                setattr(element, space, None)
        element.attrib = {
            key.rpartition("}")[2]: _attribute(key.rpartition("}")[2], value, name)
            for key, value in element.attrib.items()
        }
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": "plot",
        "role": "img",
        "aria-label": description,
        "style": "stroke-linejoin: round; stroke-linecap: butt",  # was the removed global style
    }
    return ET.tostring(root, encoding="unicode")


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-", 1)
    if key in _COORDINATES:
        return " ".join(_LONG.sub(lambda match: f"{float(match[0]):.2f}", value).split())
    value = re.sub(r"url\(#", f"url(#{name}-", value)
    if key == "style":
        value = value.replace(INK, "currentColor")
        for number, color in enumerate(SERIES, start=1):
            value = value.replace(color, f"var(--series-{number}, {color})")
    return value
