"""How figures look: one style for all of them.

A figure has one message, its title. What is drawn is labeled where it is drawn, in its own color,
instead of in a legend. Figures are narrow, so that they are readable at half the width of a page.
"""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from knnlm.report.document import Figure
from knnlm.report.svg import INK, MARKERS, SERIES, drawing

WIDTH = 4.8
_LINE, _TITLE = 0.155, 0.21  # inches of a line of text, of a line of the title
_TITLE_CHARACTERS = 52


class Estimate(NamedTuple):
    """A number with its 95 % interval, in percent."""

    value: float
    low: float
    high: float


class Line(NamedTuple):
    """One line of a forest plot: its label, an estimate for each series (None where there is none)
    and the paper's number."""

    label: str
    estimates: Sequence[Estimate | None]
    paper: float | None = None
    heading: bool = False


class Curve(NamedTuple):
    """One curve: its label, and y with an interval over x."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def forest(
    name: str,
    title: str,
    caption: str,
    lines: Sequence[Line],
    series: Sequence[str],
    axis: str,
) -> Figure:
    """Estimates with intervals, one line each, around zero; the paper's as crosses."""
    step = 0.21 * max(1, len(series)) + 0.13
    heights = [0.30 if line.heading else step for line in lines]
    tops = [sum(heights[:i]) for i in range(len(lines) + 1)]
    has_paper = any(line.paper is not None for line in lines)

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for line, top, height in zip(lines, tops, heights, strict=False):
            _forest_line(axes, line, top, height)
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_ylim(tops[-1] + 0.06, -0.06)
        middles = [top + height / 2 for top, height in zip(tops, heights, strict=False)]
        axes.set_yticks(middles, [textwrap.fill(line.label, 30) for line in lines])
        for tick, line in zip(axes.get_yticklabels(), lines, strict=True):
            tick.set_fontweight("bold" if line.heading else "normal")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(axis)
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="x")
        _key(canvas, series, has_paper)
        _titled(canvas, title)

    keys = (len(series) > 1) * len(series) + has_paper
    height = tops[-1] + 0.75 + _title_height(title) + _LINE * keys
    return Figure(name, caption, drawing(name, f"{title}. {caption}", (WIDTH, height), draw))


def _forest_line(axes: Axes, line: Line, top: float, height: float) -> None:
    count = len(line.estimates)
    for number, estimate in enumerate(line.estimates):
        if estimate is None:
            continue
        at = top + height * (number + 1) / (count + 1)
        color = SERIES[number]
        axes.hlines(at, estimate.low, estimate.high, color=color, linewidth=2.0)
        axes.plot(estimate.value, at, color=color, marker=MARKERS[number], markersize=5)
    if line.paper is not None:
        at = top + height / (count + 1)
        axes.plot(line.paper, at, color=INK, marker="x", markersize=6, linestyle="none")


def bars(
    name: str, title: str, caption: str, values: Sequence[tuple[str, float]], axis: str
) -> Figure:
    """A few numbers as bars, each with its number at its end."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for number, (_, value) in enumerate(values):
            color = SERIES[0] if number % 2 == 0 else SERIES[2]
            axes.barh(number, value, color=color, height=0.62)
            axes.annotate(
                f"{value:.1f}",
                (value, number),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontweight="bold",
            )
        axes.set_yticks(range(len(values)), [textwrap.fill(label, 26) for label, _ in values])
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.set_xlim(0, 1.12 * max(value for _, value in values))
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(axis)
        _titled(canvas, title)

    height = 0.36 * len(values) + 0.6 + _title_height(title)
    return Figure(name, caption, drawing(name, f"{title}. {caption}", (WIDTH, height), draw))


def curves(
    name: str,
    title: str,
    caption: str,
    lines: Sequence[Curve],
    axes_labels: tuple[str, str],
    *,
    log: bool = False,
    level: tuple[str, float] | None = None,
) -> Figure:
    """Curves with their labels at their right ends; `level` is a dashed line with its label."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for number, curve in enumerate(lines):
            color = SERIES[number % len(SERIES)]
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(curve.x, curve.y, color=color, marker=marker, markersize=4, linewidth=1.7)
            if curve.low is not None and curve.high is not None:
                axes.vlines(curve.x, curve.low, curve.high, color=color, linewidth=1.2)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))  # 10, not a formula
            axes.xaxis.set_minor_formatter(NullFormatter())
        elif all(float(x).is_integer() for curve in lines for x in curve.x):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if level is not None:
            axes.axhline(level[1], color=INK, linewidth=1, linestyle=(0, (5, 3)))
        _labels_at_the_right(axes, lines, level)
        axes.set_xlabel(axes_labels[0])
        axes.set_ylabel(axes_labels[1])
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        _titled(canvas, title)

    height = 2.7 + _title_height(title)
    return Figure(name, caption, drawing(name, f"{title}. {caption}", (WIDTH, height), draw))


def _labels_at_the_right(
    axes: Axes, lines: Sequence[Curve], level: tuple[str, float] | None
) -> None:
    """Labels beside the ends of curves, moved apart where they would overlap."""
    ends = [(curve.y[-1], curve.label, SERIES[n % len(SERIES)]) for n, curve in enumerate(lines)]
    if level is not None:
        ends.append((level[1], level[0], INK))
    low, high = axes.get_ylim()
    least = 0.075 * (high - low)
    at = low - least
    for y, label, color in sorted(ends):
        at = max(y, at + least)
        axes.annotate(
            label,
            xy=(1.01, at),
            xycoords=("axes fraction", "data"),
            color=color,
            va="center",
            ha="left",
            annotation_clip=False,
        )


def _key(canvas: Canvas, series: Sequence[str], has_paper: bool) -> None:
    """What markers mean, one to a line, each in its own color."""
    entries = [(MARKERS[n], SERIES[n], name) for n, name in enumerate(series) if len(series) > 1]
    entries += [("x", INK, "the paper")] if has_paper else []
    if not entries:
        return
    handles = [
        canvas.axes[0].plot([], [], color=color, marker=marker, linestyle="none", label=name)[0]
        for marker, color, name in entries
    ]
    legend = canvas.legend(
        handles=handles, loc="outside lower center", frameon=False, ncols=1, handletextpad=0.3
    )
    for text, (_, color, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_color(color)


def _titled(canvas: Canvas, title: str) -> None:
    canvas.suptitle(textwrap.fill(title, _TITLE_CHARACTERS), fontweight="bold", fontsize=11)


def _title_height(title: str) -> float:
    return _TITLE * len(textwrap.wrap(title, _TITLE_CHARACTERS))
