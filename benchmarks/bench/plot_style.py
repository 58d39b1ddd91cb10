"""How lines and axes of the plots look, in the colors of knnlm.report.svg."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from knnlm.report.svg import DASHES, INK, MARKERS, SERIES


def style(number: int) -> dict[str, Any]:
    """How the line of this number looks: past the fourth, colors repeat, dashed and hollow."""
    turn, series = divmod(number, len(SERIES))
    return {
        "color": SERIES[series],
        "marker": MARKERS[series],
        "linestyle": DASHES[turn],
        "markersize": 5,
        "linewidth": 1.7,
        "fillstyle": "none" if turn else "full",
    }


def faint_style() -> dict[str, Any]:
    """How a line looks that is only there for comparison."""
    return {"color": INK, "alpha": 0.3, "marker": ".", "markersize": 4, "linewidth": 0.9}


def legend_key(number: int, label: str, **changes: Any) -> Line2D:
    """A line of this number as a legend shows it."""
    return Line2D([], [], **{**style(number), **changes}, label=label)


def log_axis(axes: Axes, which: str, labeled: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers: 10,000, no powers."""
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=labeled))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())
