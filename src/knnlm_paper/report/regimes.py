"""When each reason holds: the main effects against training progress and against width, drawn from
records."""

import math

from matplotlib.figure import Figure as Canvas

from knnlm.experiments.base_lms import Checkpoint
from knnlm.report.document import Figure, Table
from knnlm.report.svg import INK, drawing
from knnlm_paper.conditions import KNN, Learned
from knnlm_paper.experiments.regimes import retrievals
from knnlm_paper.findings import Claim, Term, better, check, gain
from knnlm_paper.report.figures import Line, series
from knnlm_paper.report.formats import interval, make_table, number, percent
from knnlm_paper.results import Results
from knnlm_paper.shares import Effect, share_of_gain

SHARE = "share that a learned head has"
OVER = "the same over the calibrated LM"
EFFECTS = (
    "gain of kNN",
    "gain over the calibrated LM",
    "att over ffn",
    "approximate over exact",
    SHARE,
    OVER,
)
LINES = {
    "main": "with dropout",
    "no-dropout": "without dropout",
    "overfitted": "without dropout, for longer",
}


def points(results: Results) -> dict[tuple[str, int | None], dict[str, Effect]]:
    """All effects at every point that was measured, at tuned τ."""
    found = {}
    scale = results.scale
    best = ((name, None) for name in (*scale.widths, *scale.seeds))
    for lm, step in (*scale.checkpoints, *best):
        index, exact, ffn = retrievals(results.scale, lm, step)
        terms = {
            EFFECTS[0]: gain(exact, "own_tau"),
            EFFECTS[1]: gain(exact, "on_calibrated", "calibrated"),
            EFFECTS[2]: better(exact, ffn, "own_tau"),
            EFFECTS[3]: better(index, exact, "own_tau"),
        }
        if all(KNN(arm) in results for arm in (index, exact, ffn)):
            found[lm, step] = {name: _effect(t, results) for name, t in terms.items()}
            head = [Learned(lm=Checkpoint(lm, step))]
            found[lm, step][SHARE] = share_of_gain(results, head, KNN(exact))
            found[lm, step][OVER] = share_of_gain(
                results, head, KNN(exact), "on_calibrated", "calibrated"
            )
    return found


def _effect(terms: tuple[Term, ...], results: Results) -> Effect:
    finding = check(Claim(name="", says="", where="", terms=terms), results, ("main",))
    return Effect(finding.effect, finding.low, finding.high)


def table(results: Results) -> Table:
    """Every point with its LM's training and validation perplexity."""
    rows = []
    for (lm, step), effects in points(results).items():
        about = results.measurement(KNN(retrievals(results.scale, lm, step)[1])).lm
        rows.append(
            (
                lm,
                f"{about.step:,}",
                number(about.train_ppl or math.inf, 1),
                number(about.valid_ppl or math.inf, 1),
                *(
                    "" if math.isnan(e.value) else f"{percent(e.value)} ({interval(e.low, e.high)})"
                    for e in (effects[n] for n in EFFECTS)
                ),
            )
        )
    return make_table(("LM", "update", "training PPL", "validation PPL", *EFFECTS), tuple(rows))


def progress(results: Results) -> Figure | None:
    """The effects against updates of training, with and without dropout."""
    found = points(results)
    names = dict.fromkeys(lm for lm, _ in results.scale.checkpoints)
    panels: dict[str, list[Line]] = {effect: [] for effect in EFFECTS}
    for lm in names:
        at = {_step(results, lm, s): e for (name, s), e in found.items() if name == lm}
        at = dict(sorted(at.items()))
        for effect in EFFECTS:
            values = [at[s][effect] for s in at]
            panels[effect].append(
                Line(
                    LINES.get(lm, lm),
                    list(at),
                    [100 * v.value for v in values],
                    [(100 * v.low, 100 * v.high) for v in values],
                )
            )
    if not any(line.x for lines in panels.values() for line in lines):
        return None
    caption = (
        "The main effects, each arm at its tuned τ, against updates of training; bars are 95 % "
        "intervals over "
        "documents. With dropout the LM goes from under-trained to its best; without, it learns "
        "faster, and trained "
        "for longer it overfits."
    )
    return _panels("regimes-progress", caption, panels, "updates of training")


def _step(results: Results, lm: str, step: int | None) -> int:
    """The update of a point; the best one's is in its record."""
    return results.measurement(KNN(retrievals(results.scale, lm, step)[1])).lm.step or 0


def width(results: Results) -> Figure | None:
    """The effects against the width of the LM."""
    found = points(results)
    panels: dict[str, list[Line]] = {}
    for effect in EFFECTS:
        have = [lm for lm in results.scale.widths if (lm, None) in found]
        values = [found[lm, None][effect] for lm in have]
        widths = [results.scale.lm(lm).preset.width for lm in have]
        panels[effect] = [
            Line(
                "each LM at its best",
                widths,
                [100 * v.value for v in values],
                [(100 * v.low, 100 * v.high) for v in values],
            )
        ]
    if not panels[EFFECTS[0]][0].x:
        return None
    caption = (
        "The main effects, each arm at its tuned τ, against the width of the base LM; bars are "
        "95 % intervals."
    )
    return _panels("regimes-width", caption, panels, "width")


def _panels(name: str, caption: str, panels: dict[str, list[Line]], label: str) -> Figure:
    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(3, 2, sharex=True)
        for axes, (effect, lines) in zip(grid.flat, panels.items(), strict=False):
            for place, line in enumerate(lines):
                if line.x:
                    series(axes, place, line)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_title(f"{effect}, %", fontsize=9.5)
            axes.set_xscale("log")
            axes.set_xticks(sorted({x for line in lines for x in line.x}))
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axes.xaxis.set_minor_formatter(lambda x, _: "")
            axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        for axes in grid[2]:
            axes.set_xlabel(label)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        canvas.legend(
            handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5
        )

    return Figure(name, caption, drawing(name, caption, (7.0, 6.8), draw))
