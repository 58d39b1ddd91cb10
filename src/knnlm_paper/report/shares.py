"""The share of the neighbours' gain that each substitute has, against what it adds to the LM and
what it costs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from knnlm.report.document import Figure
from knnlm.report.svg import INK, MARKERS, SERIES, drawing
from knnlm_paper.conditions import KNN, Combined, Learned, PaperCondition
from knnlm_paper.report.substitutes import ComponentSpec
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
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


def points(results: Results) -> list[Point]:
    """Every substitute without a search that was measured, and exact search itself."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    found: dict[str, Point] = {}
    every: list[ComponentSpec] = [*results.of_kind(Learned), *results.of_kind(Combined)]
    for row in every:
        if row.lm != ("main", None) or row.retrievals:
            continue
        first = row.with_seed(0)
        names: list[PaperCondition[Any]] = [*results.learning_seeds(first)]
        if first.name in found or not names:
            continue
        learned = results.measurement(names[0]).added
        share = share_of_gain(results, names, knn, "own_tau", "base")
        over = share_of_gain(results, names, knn, "on_calibrated", "calibrated")
        found[first.name] = Point(
            first.label,
            _family(first),
            learned.parameters,
            learned.multiplications,
            learned.widths,
            share,
            over,
            float(np.mean([results.measurement(name).on_calibrated.valid_ppl for name in names])),
        )
    return list(found.values())


def best_over_calibrated(results: Results) -> Point | None:
    """The substitute with the lowest validation perplexity over the calibrated LM."""
    found = [p for p in points(results) if np.isfinite(p.over.value)]
    return min(found, key=lambda p: p.valid, default=None)


def _family(row: ComponentSpec) -> str:
    if isinstance(row, Combined):
        return "combinations"
    if row.soft:
        return "taught by neighbours"
    if row.lam is not None:
        return "loss of the mixture"
    names = {
        "mixture-of-softmaxes": "mixtures of softmaxes",
        "mlp": "networks on att and ffn",
        "clusters": "clusters",
    }
    return names.get(row.component, f"embeddings on {row.state}")


def shares_figure(results: Results) -> Figure | None:
    """The share of the neighbours' gain against what a substitute adds and costs."""
    substitutes = [p for p in points(results) if np.isfinite(p.share.value)]
    if not substitutes:
        return None
    shown = [*substitutes, *_references(results)]
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


def _references(results: Results) -> list[Point]:
    """The calibrated LM and exact search itself, between which the substitutes lie."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    cost = results.measurement(knn).entries * results.scale.shape("main").width
    calibrated = share_of_calibration(results, knn)
    unigrams = results.scale.shape("main").vocab_size
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
