"""The share of the neighbours' gain that each substitute has, against what it adds to the LM and
what it costs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from knnlm.report.document import Figure
from knnlm.report.svg import INK, MARKERS, SERIES, drawing
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.findings import Records, with_seed
from knnlm_paper.report.substitutes import ComponentSpec, seeds_of, words
from knnlm_paper.rows import Arm, Combined, Learned
from knnlm_paper.scales import Scale
from knnlm_paper.shares import Effect, share_of_calibration, share_of_gain

ITSELF = "exact search itself"
CALIBRATED = "the calibrated LM"


class Point(NamedTuple):
    """A substitute in the plot of shares."""

    name: str
    family: str
    parameters: int
    multiplications: int
    widths: float
    """Parameters in output embeddings, V×D."""
    share: Effect
    over: Effect
    valid: float
    """Validation perplexity over the calibrated LM, the mean of all seeds."""


def points(records: Records, scale: Scale) -> list[Point]:
    """Every substitute without a search that was measured, and exact search itself."""
    knn: Arm = exactly(paper_arm(scale))
    found: dict[str, Point] = {}
    for record in records.values():
        row = _row_of(record)
        if (
            row is None
            or row.lm != ("main", None)
            or (isinstance(row, Combined) and row.neighbours)
        ):
            continue
        first = with_seed(row, 0)
        assert isinstance(first, Learned | Combined)
        names = seeds_of(records, first)
        if first.name in found or not names:
            continue
        learned = records[names[0]]["results"]["learned"]
        share = share_of_gain(records, names, knn.name, "tuned", "base")
        over = share_of_gain(records, names, knn.name, "on_calibrated", "calibrated")
        found[first.name] = Point(
            words(first),
            _family(first),
            learned["parameters"],
            learned["multiplications"],
            learned["widths"],
            share,
            over,
            float(
                np.mean([records[name]["results"]["on_calibrated"]["valid_ppl"] for name in names])
            ),
        )
    return list(found.values())


def best_over_calibrated(records: Records, scale: Scale) -> Point | None:
    """The substitute with the lowest validation perplexity over the calibrated LM."""
    found = [p for p in points(records, scale) if np.isfinite(p.over.value)]
    return min(found, key=lambda p: p.valid, default=None)


def _family(row: ComponentSpec) -> str:
    if isinstance(row, Combined):
        return "combinations"
    if row.soft:
        return "taught by neighbours"
    if row.lam is not None:
        return "loss of the mixture"
    names = {
        "softmaxes": "mixtures of softmaxes",
        "network": "networks on att and ffn",
        "clusters": "clusters",
    }
    return names.get(row.kind, f"embeddings on {row.state}")


def _row_of(record: Any) -> ComponentSpec | None:
    """The row of a record, made again from what the record says of it."""
    if record["kind"] == "learned":
        return Learned(**record["what"])
    if record["kind"] == "combined":
        what = record["what"]
        return Combined(
            tuple(Learned(**p) for p in what["parts"]), tuple(Arm(**a) for a in what["neighbours"])
        )
    return None


def shares_figure(records: Records, scale: Scale) -> Figure | None:
    """The share of the neighbours' gain against what a substitute adds and costs."""
    substitutes = [p for p in points(records, scale) if np.isfinite(p.share.value)]
    if not substitutes:
        return None
    shown = [*substitutes, *_references(records, scale)]
    last = [CALIBRATED, ITSELF]
    families = sorted({p.family for p in shown} - set(last)) + last
    caption = (
        "The share of the neighbours' gain in log-likelihood that each substitute has without a "
        "search, against the "
        "numbers it adds to the LM and the multiplications it costs for one token (logarithmic); "
        "above, over the LM, "
        "below, over the calibrated LM. 100 % is exact search on att at its own τ. Bars are 95 % "
        "intervals."
    )

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(2, 2, sharex="col", sharey="row")
        for axes, panel in zip(grid.flat, _panels(shown), strict=True):
            _draw_panel(axes, panel, families)
            if axes in grid[1]:
                axes.set_xlabel(panel.label)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        canvas.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5
        )

    return Figure("shares", caption, drawing("shares", caption, (7.0, 6.4), draw))


def _references(records: Records, scale: Scale) -> list[Point]:
    """The calibrated LM and exact search itself, between which the substitutes lie."""
    knn = exactly(paper_arm(scale))
    cost = records[knn.name]["results"]["rows"] * scale.shape("main").width
    calibrated = share_of_calibration(records, knn.name)
    unigrams = scale.shape("main").vocab_size
    nothing, whole = Effect(0.0, 0.0, 0.0), Effect(1.0, 1.0, 1.0)
    return [
        Point(CALIBRATED, CALIBRATED, unigrams + 2, unigrams, 0.0, calibrated, nothing, math.inf),
        Point(ITSELF, ITSELF, cost, cost, math.inf, whole, whole, math.inf),
    ]


class _Panel(NamedTuple):
    """One of the four plots: what is on its x axis, over which LM, and (x, share, family)."""

    label: str
    over: str
    values: list[tuple[int, Effect, str]]


def _panels(shown: Sequence[Point]) -> list[_Panel]:
    numbers, products = "added numbers", "multiplications for one token"
    lm, calibrated = "over the LM", "over the calibrated LM"
    return [
        _Panel(numbers, lm, [(p.parameters, p.share, p.family) for p in shown]),
        _Panel(products, lm, [(p.multiplications, p.share, p.family) for p in shown]),
        _Panel(numbers, calibrated, [(p.parameters, p.over, p.family) for p in shown]),
        _Panel(products, calibrated, [(p.multiplications, p.over, p.family) for p in shown]),
    ]


def _draw_panel(axes: Any, panel: _Panel, families: Sequence[str]) -> None:
    for i, family in enumerate(families):
        drawn = [(x, s) for x, s, f in panel.values if f == family and np.isfinite(s.value)]
        x, shares = [x for x, _ in drawn], [s for _, s in drawn]
        color, marker = SERIES[i % len(SERIES)], MARKERS[i % len(MARKERS)]
        if family in (ITSELF, CALIBRATED):
            color, marker = INK, "*" if family == ITSELF else "P"
        filled = color if i < len(SERIES) else "none"
        axes.scatter(
            x,
            [100 * s.value for s in shares],
            s=24,
            marker=marker,
            facecolors=filled,
            edgecolors=color,
            label=family,
        )
        axes.vlines(
            x,
            [100 * s.low for s in shares],
            [100 * s.high for s in shares],
            color=color,
            linewidth=0.8,
        )
    axes.axhline(100, color=INK, linewidth=0.9, linestyle=(0, (5, 3)))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(lambda x, _: "")
    axes.set_title(f"share of the gain {panel.over}, %", fontsize=9.5)
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)
