"""Perplexity against τ and against λ, as SVG to be placed inside an HTML page.

Knows curves and nothing of how they were measured. Ink is `currentColor` and each series colour a
CSS variable with the Okabe-Ito colour as its fallback, so that the page decides what light, dark
and print look like.
"""

import io
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from knnlm.report import formats
from knnlm.report.content import Curve

_INK = "#010203"  # no other element uses this colour, so it can be found again in the SVG
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe-Ito, those that are legible on white
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("solid", (0, (4, 2)), (0, (1, 1.5)))
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "knnlm",  # the same curves give the same ids
    "font.size": 9.5,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def temperature_plot(curves: Sequence[Curve], base: float | None = None) -> str:
    """Validation perplexity against τ, in units of the scores' spread; `base` is the LM's level."""
    return _plot(
        curves,
        base,
        name="tau",
        label="τ, in units of the spread of the neighbours' scores",
        log=True,
    )


def lambda_plot(curves: Sequence[Curve], base: float | None = None) -> str:
    """Validation perplexity against λ; `base` is the LM's level."""
    return _plot(curves, base, name="lambda", label="λ, the weight of the neighbours", log=False)


def _plot(curves: Sequence[Curve], base: float | None, *, name: str, label: str, log: bool) -> str:
    # The SVG writer reads some settings only from matplotlib's own; both contexts put them back.
    with matplotlib.style.context("default"), matplotlib.rc_context(_SETTINGS):
        rows_of_legend = math.ceil(len(curves) / 2)
        figure = Figure(figsize=(5.0, 3.1 + 0.2 * rows_of_legend), layout="constrained")
        axes = figure.add_subplot()
        for place, curve in enumerate(curves):
            _draw(axes, place, curve)
        if base is not None:
            _draw_base(axes, base)
        if log:
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            wide = high > 1000 * low  # labels of every 1, 2 and 5 would run into each other
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(*_limits(curves, base))
        axes.set_xlabel(label)
        axes.set_ylabel("validation perplexity")
        axes.grid(color=_INK, alpha=0.12, linewidth=0.6)
        if rows_of_legend:
            legend = figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5, handlelength=2.6)
            for text in legend.get_texts():
                text.set_parse_math(False)  # a $ in a label is a $
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _inline(out.getvalue(), name, f"Validation perplexity against {label}")


def _draw(axes: Axes, place: int, curve: Curve) -> None:
    """One curve and its optimum; past the fourth the colours repeat with another dash."""
    turn, which = divmod(place, len(_SERIES))
    colour, marker = _SERIES[which], _MARKERS[which]
    label = curve.label
    if curve.best:
        label += f": {formats.perplexity(curve.best[1])} at {formats.significant(curve.best[0])}"
    axes.plot(
        curve.x,
        curve.y,  # points at infinity are left out by matplotlib
        color=colour,
        linewidth=1.6,
        linestyle=_DASHES[min(turn, len(_DASHES) - 1)],
        marker=marker,
        markersize=2.5,
        label=label,
    )
    if curve.best:
        axes.plot(*curve.best, color=colour, marker=marker, markersize=8, markeredgecolor=_INK, zorder=4)


def _draw_base(axes: Axes, base: float) -> None:
    axes.axhline(base, color=_INK, linewidth=1, linestyle=(0, (5, 3)))
    axes.annotate(
        "LM alone",
        xy=(1, base),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
    )


def _limits(curves: Sequence[Curve], base: float | None) -> tuple[float, float]:
    """The part of y worth seeing: a curve that explodes leaves at the top."""
    values = [y for curve in curves for y in curve.y if math.isfinite(y)]
    values += [base] if base is not None else []
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    interesting = max(base - low if base is not None else 0.0, 0.05 * low)
    high = min(high, low + 3 * interesting)
    room = 0.06 * max(high - low, 0.01 * low)
    return low - room, high + 1.5 * room  # the LM's level may be the highest, with its label above


def _inline(svg: str, name: str, description: str) -> str:
    """A matplotlib document as an element among others: own ids, no header, no global style."""
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
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
    value = re.sub(r"url\(#", f"url(#{name}-", value)
    if key == "style":
        value = value.replace(_INK, "currentColor")
        for place, colour in enumerate(_SERIES, start=1):
            value = value.replace(colour, f"var(--series-{place}, {colour})")
    return value
