"""The paper's figures redrawn from results, and ours. Vector, legible in print, colour-blind safe
(report/svg.py)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knnlm.report.document import Figure
from knnlm.report.svg import DASHES, INK, MARKERS, SERIES, drawing
from knnlm_paper.conditions import KNN, FullDatastore, NeighborCounts, TemperatureCurve, WordTypes
from knnlm_paper.experiments.recompute import four
from knnlm_paper.report.tables import setting
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.trends import trend

SIZE = (6.2, 3.9)


class Line(NamedTuple):
    """Points of one series; `spread` are the ends of bars."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[tuple[float, float]] | None = None


def sizes(results: Results, field: str) -> Figure:
    """Perplexity against the size of the store (fig:subsample_dstore_only, fig:datastore_size)."""
    lines = []
    for arm in four(paper_retrieval(results.scale))[:3]:
        points = []
        for fraction in results.scale.fractions:
            draws = range(results.scale.draws if fraction < 1 else 1)
            drawn = [KNN(replace(arm, fraction=fraction, draw=d)) for d in draws]
            found = [results.ppl(row, field) for row in drawn if row in results]
            if found:
                points.append((100 * fraction, float(np.mean(found)), (min(found), max(found))))
        if points:
            lines.append(
                Line(
                    setting(arm),
                    [p[0] for p in points],
                    [p[1] for p in points],
                    [p[2] for p in points],
                )
            )
    words = "one τ for all" if field == "one_tau" else "each point at its own τ"
    caption = (
        f"Test perplexity against the share of the store that is used, {words}; bars span the "
        "random parts drawn."
    )
    base = _base(results, paper_retrieval(results.scale))
    name = f"sizes-{field.replace('_', '-')}"
    return plot(name, caption, lines, "share of the store, %", base=base)


def temperatures(results: Results, fraction: float) -> Figure:
    """Perplexity against τ, λ refitted at each (fig:small_temperature, fig:full_temperature)."""
    lines = []
    for arm in four(replace(paper_retrieval(results.scale), fraction=fraction)):
        record = results.find(TemperatureCurve(arm))
        if record is not None:
            points = record.points
            lines.append(
                Line(setting(arm), [p.temperature for p in points], [p.ppl for p in points])
            )
    caption = (
        f"Test perplexity against τ on {fraction:.0%} of the store, λ refitted on validation at "
        "each τ. The dotted "
        "line is τ = 1, where the paper's tables are; its figures end at 3."
    )
    name = "temperature-full" if fraction == 1 else "temperature-small"
    base = _base(results, paper_retrieval(results.scale))

    def mark(axes: Axes) -> None:
        axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))

    return plot(name, caption, lines, "temperature τ", log=True, base=base, also=mark)


def neighbours(
    results: Results, rows: Sequence[NeighborCounts], whole: Sequence[FullDatastore]
) -> Figure:
    """Perplexity against k, up to all rows of the main LM's store."""
    lines = []
    for row in rows:
        record = results.find(row)
        if record is not None:
            points = record.points
            for field, words in (("tau_1", "τ = 1"), ("own_tau", "tuned τ")):
                lines.append(
                    Line(
                        f"{setting(row.retrieval)}, {words}",
                        [p.k for p in points],
                        [getattr(p, field).ppl for p in points],
                    )
                )
    base = next((results.measurement(r).base.ppl for r in rows if r in results), None)
    for every in whole:
        full = results.find(every)
        if full is not None and every.lm.name == "main" and math.isfinite(full.own_tau.ppl):
            lines.append(
                Line(
                    f"{every.state}, all rows, tuned τ",
                    [full.entries],
                    [full.own_tau.ppl],
                )
            )
    return plot(
        "neighbours",
        "Test perplexity against the number of neighbours k.",
        lines,
        "k",
        log=True,
        base=base,
    )


def approximations(results: Results) -> Figure:
    """Perplexity against recall of the mask, by kind of approximation."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for factory, nprobe in results.scale.factories:
        arm = replace(paper_retrieval(results.scale), factory=factory, nprobe=nprobe)
        record = results.find(KNN(arm))
        if record is not None and record.recall is not None:
            pruned, coded = factory.startswith("IVF"), "PQ" in factory
            kind = (
                "lists and codes"
                if pruned and coded
                else "lists pruned"
                if pruned
                else "codes (quantised)"
            )
            groups.setdefault(kind, []).append((record.recall, record.own_tau.ppl))
    lines = [
        Line(kind, [p[0] for p in sorted(g)], [p[1] for p in sorted(g)])
        for kind, g in groups.items()
    ]
    exact = results.find(KNN(exactly(paper_retrieval(results.scale))))
    level = exact.own_tau.ppl if exact is not None else None
    caption = (
        "Test perplexity at the tuned τ against the recall of the mask; the dashed line is exact "
        "search."
    )
    return plot(
        "approximations",
        caption,
        lines,
        "share of the true neighbours found",
        base=level,
        word="exact",
        side="left",
    )


def words(results: Results, row: WordTypes, attribute: str) -> Figure | None:
    """Appendix D's scatter: how much better exact neighbours are than approximate ones, by kind of
    word."""
    record = results.find(row)
    if record is None or len(record.types) < 3:
        return None
    kinds = record.types
    x = [float(getattr(w, attribute)) for w in kinds]
    y = [100 * (w.exact - w.approximate) for w in kinds]
    line = trend(x, y)
    label = {
        "length": "length of the token, characters",
        "forward": "forward bigram entropy, nats",
        "backward": "backward bigram entropy, nats",
    }[attribute]

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        axes.scatter(x, y, s=9, color=SERIES[0], alpha=0.5, linewidths=0)
        ends = np.array([min(x), max(x)])
        axes.plot(ends, line.intercept + line.slope * ends, color=SERIES[1], linewidth=1.8)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xlabel(label)
        axes.set_ylabel("exact minus approximate: occurrences helped, %")
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)

    caption = (
        f"{len(kinds)} token types with at least {row.least} occurrences. Below zero approximate "
        "neighbours help more "
        f"often. Slope {line.slope:+.3f} points (95 %: {line.low:+.3f} to {line.high:+.3f})."
    ).replace("-", "−")
    name = f"words-{attribute}"
    return Figure(name, caption, drawing(name, caption, SIZE, draw))


def _base(results: Results, arm: Retrieval) -> float | None:
    record = results.find(KNN(arm))
    return None if record is None else float(record.base.ppl)


def plot(
    name: str,
    caption: str,
    lines: Sequence[Line],
    label: str,
    *,
    log: bool = False,
    base: float | None = None,
    word: str = "LM alone",
    also: Callable[[Axes], None] | None = None,
    dotted: tuple[float, str] | None = None,
    side: Literal["left", "right"] = "right",
) -> Figure:
    """Lines with markers, the level of the LM alone, and a dotted level with its own word; `side`
    is the words'."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for place, line in enumerate(lines):
            series(axes, place, line)
        if also is not None:
            also(axes)
        values = [y for line in lines for y in line.y if math.isfinite(y)]
        levels = [(base, word, (5, 3))] if base is not None else []
        levels += [(*dotted, (1, 2))] if dotted is not None else []
        for level, said, dashes in levels:
            axes.axhline(level, color=INK, linewidth=1, linestyle=(0, dashes))
            axes.annotate(
                said,
                xy=(float(side == "right"), level),
                xycoords=axes.get_yaxis_transform(),
                xytext=(-2 if side == "right" else 2, 2),
                textcoords="offset points",
                ha=side,
                va="bottom",
                fontsize=8.5,
            )
            values.append(level)
        if values:
            low, high = min(values), max(values)
            room = 0.07 * max(high - low, 0.005 * low)
            axes.set_ylim(low - room, high + 1.6 * room)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.set_xlabel(label)
        axes.set_ylabel("test perplexity")
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        if lines:
            canvas.legend(
                loc="outside lower center", ncols=2, frameon=False, fontsize=8.5, handlelength=2.6
            )

    return Figure(name, caption, drawing(name, caption, SIZE, draw))


def series(axes: Axes, place: int, line: Line) -> None:
    """One line in the style of its place."""
    turn, which = divmod(place, len(SERIES))
    dashes = DASHES[min(turn, len(DASHES) - 1)] if len(line.x) > 1 else "none"
    axes.plot(
        line.x,
        line.y,
        color=SERIES[which],
        marker=MARKERS[which],
        markersize=3.2 if len(line.x) > 1 else 6,
        linewidth=1.6,
        linestyle=dashes,
        label=line.label,
    )
    if line.spread is not None:
        low, high = zip(*line.spread, strict=True)
        axes.vlines(line.x, low, high, color=SERIES[which], linewidth=1.2)
