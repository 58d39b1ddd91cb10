"""Plots of perplexity against the retrieval temperature τ and the interpolation weight λ."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from knnlm import formats
from knnlm.report.results import Curve
from knnlm.report.svg import DASHES, INK, MARKERS, SERIES, drawing


def temperature_plot(curves: Sequence[Curve], base: float | None = None) -> str:
    """Validation perplexity against τ, in units of the scores' spread; `base` is the LM's level."""
    return _plot(
        curves,
        base,
        name="tau",
        label="τ, in units of the spread of the neighbors' scores",
        log=True,
    )


def lambda_plot(curves: Sequence[Curve], base: float | None = None) -> str:
    """Validation perplexity against λ; `base` is the LM's level."""
    return _plot(curves, base, name="lambda", label="λ, the weight of the neighbors", log=False)


def _plot(curves: Sequence[Curve], base: float | None, *, name: str, label: str, log: bool) -> str:
    rows_of_legend = math.ceil(len(curves) / 2)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, curve in enumerate(curves):
            _draw(axes, index, curve)
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
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        if rows_of_legend:
            figure.legend(
                loc="outside lower center", ncols=2, frameon=False, fontsize=8.5, handlelength=2.6
            )

    return drawing(
        name, f"Validation perplexity against {label}", (5.0, 3.1 + 0.2 * rows_of_legend), draw
    )


def _draw(axes: Axes, index: int, curve: Curve) -> None:
    """One curve and its optimum; past the fourth the colors repeat with another dash."""
    turn, series = divmod(index, len(SERIES))
    color, marker = SERIES[series], MARKERS[series]
    label = curve.label
    if curve.best:
        label += f": {formats.perplexity(curve.best[1])} at {formats.significant(curve.best[0])}"
    axes.plot(
        curve.x,
        curve.y,  # points at infinity are left out by matplotlib
        color=color,
        linewidth=1.6,
        linestyle=DASHES[min(turn, len(DASHES) - 1)],
        marker=marker,
        markersize=2.5,
        label=label,
    )
    if curve.best:
        axes.plot(
            *curve.best, color=color, marker=marker, markersize=8, markeredgecolor=INK, zorder=4
        )


def _draw_base(axes: Axes, base: float) -> None:
    axes.axhline(base, color=INK, linewidth=1, linestyle=(0, (5, 3)))
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
