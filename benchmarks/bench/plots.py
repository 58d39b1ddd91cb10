"""Plots of the records, for docs/benchmarks.md: ratios, indexes, growth.

Everything is drawn with the library's own style (knnlm.report.svg): colors follow the reader's
light or dark mode, and the same record gives the same file on the same machine.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from bench.plot_style import faint_style, legend_key, log_axis, style
from knnlm.report.svg import INK, MARKERS, SERIES, drawing, standalone

_AIM = 0.95
"""The recall that indexes should reach."""
_RECALLS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_FEWEST_RATIOS = 3
"""A table of fewer needs no plot."""
_DRAWN_FIRST = (
    "default, 3 refined",
    "small, 4 refined",
    "SQ8",
    "the paper's IVFPQ",
    "hnswlib",
    "usearch",
    "ScaNN",
    "the earlier default",
)
"""The families of indexes that are drawn in color if they were measured, then others up to as
many; the rest is faint."""
_MANY_DECADES = 200
"""Where the greatest number is so many times the least, only powers of ten are labeled."""
_GROWTH = {
    "seconds": ("Time", "seconds", lambda point: point["seconds"][1]),
    "memory": (
        "Peak memory",
        "anonymous memory, MB",
        lambda point: point["anonymous_bytes"] / 1e6,
    ),
}


class Plot(NamedTuple):
    """A plot that can be drawn.

    Attributes:
        name: Of its file, without the suffix.
        caption: What it shows, for readers who do not see it too.
        size: Width and height in inches.
        draw: Draws on an empty figure.
    """

    name: str
    caption: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]

    def svg(self) -> str:
        """The contents of its file."""
        return standalone(drawing(self.name, self.caption, self.size, self.draw))


def plots_of(case: str, record: dict[str, Any]) -> list[Plot]:
    """The plots of a record.

    Args:
        case: Its name.
        record: As benchmarks/run.py writes it.
    """
    plots = []
    if len(record.get("comparisons", ())) >= _FEWEST_RATIOS:
        plots.append(_ratios(case, record["comparisons"]))
    points = [point for point in record.get("points", ()) if "failed" not in point]
    if case == "indexes" and points:
        plots.append(_recall(points))
        if any(point["perplexity"] is not None for point in points):
            plots.append(_perplexity(points))
    if case == "growth" and points:
        known = [name for name, (*_, value) in _GROWTH.items() if any(map(value, points))]
        plots += [_growth(quantity, record) for quantity in known]
    return plots


def _ratios(case: str, rows: Sequence[dict[str, Any]]) -> Plot:
    """Medians with the least and the greatest, one line each."""
    rivals = sorted({row["rival"] for row in rows})
    several = len(rivals) > 1
    labels = [row["subject"] + (f"\nbeside {row['rival']}" if several else "") for row in rows]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for number, row in enumerate(rows):
            low, middle, high = row["ratio"]
            missed = row["aim"] is not None and middle < row["aim"]
            color, marker = SERIES[missed], MARKERS[missed]
            axes.hlines(number, low, high, color=color, linewidth=2)
            axes.plot(middle, number, color=color, marker=marker, markersize=6)
            if row["aim"] is not None:
                axes.vlines(row["aim"], number - 0.35, number + 0.35, color=INK, linewidth=1.4)
        axes.axvline(1, color=INK, linewidth=0.9, linestyle=(0, (5, 3)))
        axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("ours ÷ " + ("the rival" if several else rivals[0]))
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="x")
        keys = [legend_key(0, "median, least and greatest", linewidth=2)]
        if any(row["aim"] is not None for row in rows):
            keys[0].set_label("aim reached: median, least and greatest")
            keys.append(legend_key(1, "aim missed", linewidth=2))
            aim = Line2D([], [], color=INK, marker="|", markersize=11, markeredgewidth=1.4)
            aim.set(linestyle="none", label="the aim")
            keys.append(aim)
        figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False)

    caption = "Ratios of ours to the rival: the median of the rounds, the least and the greatest."
    return Plot(case, caption, (7.4, 1.1 + (0.42 if several else 0.29) * len(rows)), draw)


def _recall(points: Sequence[dict[str, Any]]) -> Plot:
    least = min(point["recall"] for point in points)
    some = [{**point, "recall": min(point["recall"], _RECALLS[-1])} for point in points]

    def finish(axes: Axes) -> None:
        axes.set_yscale("logit")  # so that 0.9 and 0.95 are as far apart as they are hard
        axes.set_yticks(_RECALLS, [f"{recall:g}" for recall in _RECALLS])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(min(0.9 * least, _RECALLS[1]), _RECALLS[-1] + 0.0002)
        axes.axhline(_AIM, color=INK, linewidth=1, linestyle=(0, (5, 3)))
        axes.annotate(
            f"aim {_AIM:g}",
            (1, _AIM),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
        )

    caption = "Recall@1024 against queries a second, one line for each family of indexes."
    return _panels("indexes-recall", caption, some, "recall", "recall@1024", finish)


def _perplexity(points: Sequence[dict[str, Any]]) -> Plot:
    some = [point for point in points if point["perplexity"] is not None]
    caption = "Perplexity of the kNN-LM against queries a second, one line for each family."
    return _panels("indexes-perplexity", caption, some, "perplexity", "perplexity", lambda _: None)


def _panels(
    name: str,
    caption: str,
    points: Sequence[dict[str, Any]],
    field: str,
    label: str,
    finish: Callable[[Axes], None],
) -> Plot:
    """A field of the points against queries/s, a panel for each store and metric."""
    stores = list(dict.fromkeys(point["store"] for point in points))
    measured = list(dict.fromkeys(point["family"] for point in points))
    drawn = [family for family in _DRAWN_FIRST if family in measured]
    drawn += [family for family in measured if family not in drawn]
    drawn, faint = drawn[: len(_DRAWN_FIRST)], drawn[len(_DRAWN_FIRST) :]
    columns = min(2, len(stores))
    rows = -(-len(stores) // columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, store in zip(grid, stores, strict=False):
            for family in (*faint, *drawn):
                own = sorted(
                    (point["queries_per_second"], point[field])
                    for point in points
                    if (point["store"], point["family"]) == (store, family)
                )
                look = style(drawn.index(family)) if family in drawn else faint_style()
                if own:
                    axes.plot(*zip(*own, strict=True), **look)
            finish(axes)
            axes.set_title(store, fontsize=9.5)
            axes.set_ylabel(label)
            log_axis(axes, "x", (1.0, 2.0, 5.0))
            axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        for axes in grid[len(stores) :]:
            axes.remove()
        for axes in grid[max(0, len(stores) - columns) : len(stores)]:
            axes.set_xlabel("queries a second")
        figure.get_layout_engine().set(h_pad=0.07)
        keys = [legend_key(number, family) for number, family in enumerate(drawn)]
        if faint:
            keys.append(Line2D([], [], **faint_style(), label="others, in the table"))
        figure.legend(
            handles=keys,
            loc="outside lower center",
            ncols=3 if columns > 1 else 2,
            frameon=False,
            handlelength=3,
        )

    return Plot(name, caption, (4.0 * columns + 0.6, 2.8 * rows + 0.9), draw)


def _growth(quantity: str, record: dict[str, Any]) -> Plot:
    """A quantity against N, both logarithmic, one line for each operation."""
    title, label, value = _GROWTH[quantity]

    def draw(figure: Figure) -> None:
        axes, keys, values = figure.add_subplot(), [], []
        for number, row in enumerate(record["slopes"]):
            own = [
                (point["entries"], value(point))
                for point in record["points"]
                if point["operation"] == row["operation"] and value(point) > 0
            ]
            if own:
                axes.plot(*zip(*own, strict=True), **style(number))
                values += [y for _, y in own]
                slope = row[quantity]
                text = "" if slope is None else f": slope {slope:.2f}"
                keys.append(legend_key(number, row["operation"] + text))
        log_axis(axes, "x", (1.0,))
        low, high = min(values), max(values)
        log_axis(axes, "y", (1.0,) if high > _MANY_DECADES * low else (1.0, 2.0, 5.0))
        axes.set_xlabel("entries of the datastore")
        axes.set_ylabel(label)
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        figure.legend(
            handles=keys,
            title=f"slopes: from {record['slopes_from']:,} entries on",
            loc="outside right center",
            alignment="left",
            frameon=False,
            handlelength=3,
        )

    caption = f"{title} against the number of entries, both logarithmic."
    return Plot(f"growth-{quantity}", caption, (7.6, 3.6), draw)
