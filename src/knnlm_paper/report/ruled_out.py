"""The hypotheses that the paper ruled out: tables and figures, ours beside the paper's."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knnlm.formats import signed
from knnlm.report.document import Figure, Table
from knnlm.report.svg import INK, drawing
from knnlm_paper.conditions import Ensemble, TokenList
from knnlm_paper.expected import published
from knnlm_paper.experiments import ensembling, ruled_out
from knnlm_paper.place_findings import PLACES, QUANTITIES
from knnlm_paper.report.figures import Line, plot, series
from knnlm_paper.report.formats import make_table, number, percent
from knnlm_paper.report.tables import changes
from knnlm_paper.results import Results
from knnlm_paper.scales import Scale


def listed_table(results: Results, rows: Sequence[Any]) -> Table:
    """Lists of words in the place of neighbours."""
    cells = []
    for row in rows:
        assert isinstance(row, TokenList)
        if row not in results:
            continue
        r = results.measurement(row)
        one, own, over = r.tau_1, r.own_tau, r.on_calibrated
        cells.append(
            (
                row.label,
                f"{r.coverage:.3f}",
                number(one.ppl),
                number(own.ppl),
                f"{own.lam:.3f}",
                _tau(own),
                changes(r, own.ppl)[0],
                number(over.ppl),
                changes(r, over.ppl)[1],
            )
        )
    columns = (
        "list",
        "coverage",
        "interp. at τ = 1",
        "at its own τ",
        "λ",
        "τ",
        "vs base",
        "over the calibrated LM",
        "vs calibrated",
    )
    return make_table(
        columns,
        tuple(cells),
        "No τ: the list has no share. τ = ∞: every word of the list counts the same.",
    )


def _tau(at: Any) -> str:
    """τ; where the list has no share it is any, and where it is huge all words of the list are
    alike."""
    if at.lam < 0.001:
        return ""
    return "∞" if at.temperature > 1000 else f"{at.temperature:.3g}"


def ensembles_table(results: Results, rows: Sequence[Any], label: str = "") -> Table:
    """LMs and neighbours mixed, then the paper's lines."""
    cells = []
    for row in dict.fromkeys(rows):
        assert isinstance(row, Ensemble)
        if row not in results:
            continue
        r = results.measurement(row)
        one = r.others[0] if len(r.others) == 1 and not row.neighbors else None
        cells.append(
            (
                row.label,
                number(one.lm.train_ppl, 1) if one and one.lm.train_ppl is not None else "",
                number(one.ppl) if one else "",
                number(one.calibrated_ppl) if one else "",
                " / ".join(f"{s:.2f}" for s in r.own_tau.shares),
                number(r.own_tau.ppl),
                changes(r, r.own_tau.ppl)[0],
                number(r.on_calibrated.ppl),
                changes(r, r.on_calibrated.ppl)[1],
                number(one.oracle) if one else "",
                f"{one.helping:.3f}" if one else "",
            )
        )
    for theirs in published()[label] if label and cells else ():
        c = theirs.cells
        cells.append(
            (
                f"paper: {theirs.name}",
                "",
                number(c["ppl"]),
                "",
                f"{1 - c['lambda']:.2f} / {c['lambda']:.2f}",
                number(c["interp"], 3),
                percent(theirs.change),
                "",
                "",
                number(c["oracle"], 3),
                f"{c['helping']:.3f}",
            )
        )
    columns = (
        "with the main LM",
        "training PPL",
        "PPL alone",
        "calibrated",
        "weights",
        "interp.",
        "vs base",
        "all calibrated",
        "vs calibrated",
        "oracle",
        "helping",
    )
    return make_table(
        columns,
        tuple(cells),
        "Weights: of the main LM first, then in order. Oracle and helping: of pairs.",
    )


def ensembles_figure(results: Results) -> Figure | None:
    """K LMs against K-1 LMs with neighbours (fig:ensemble)."""
    lines, most = [], len(results.scale.ruled_out.ensemble)
    for field, words in (("own_tau", "as they are"), ("on_calibrated", "calibrated")):
        for knn in (False, True):
            points = []
            for count in range(most + 1):
                row = ensembling.with_lms(results.scale, count, knn)
                value = _of_ensemble(results, row, field)
                if value is not None:
                    points.append((count + 1 + knn, value))
            if points:
                label = ("LMs and neighbours, " if knn else "LMs, ") + words
                lines.append(Line(label, [p[0] for p in points], [p[1] for p in points]))
    if not any(len(line.x) > 1 for line in lines):
        return None
    caption = (
        "Test perplexity against the number of components: K LMs, or K−1 LMs with the neighbours "
        "of the first; LMs as "
        "they are, and each calibrated."
    )

    def whole(axes: Axes) -> None:
        axes.set_xticks(range(1, most + 3))

    return plot("ensembles", caption, lines, "components K", also=whole)


def _of_ensemble(results: Results, row: Ensemble, field: str) -> float | None:
    """Its perplexity; of the main LM alone, that of its base."""
    if not row.others and not row.neighbors:
        first = ensembling.with_lms(results.scale, 0, knn=True)
        point = "base" if field == "own_tau" else "calibrated"
        return results.ppl(first, point) if first in results else None
    return results.ppl(row, field) if row in results else None


def location_figure(results: Results) -> Figure | None:
    """Loss and gain against the place in the window and in the document (appendix E.3)."""
    row = ruled_out.location(results.scale).conditions[0]
    if row not in results:
        return None
    r: Any = results.measurement(row)
    caption = (
        "The LM's loss and what neighbours gain (nats per token) against the tokens of context in "
        "the window (behind a "
        f"document's first window) and against the place in the document{_cut(results.scale)}; "
        "each point is the mean over a "
        "sixteenth of the tokens: of all for the loss, of those that were searched for for the "
        "gain."
    )

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(2, 2, sharex="col")
        for column, (place, label) in enumerate(
            (("window", "tokens of context in the window"), ("document", "place in the document"))
        ):
            for line, what in enumerate(("loss", "gain")):
                axes = grid[line][column]
                points = getattr(getattr(r, place), what).ranges
                series(axes, line, Line("", [p.position for p in points], [p.mean for p in points]))
                axes.set_title(
                    f"{'loss of the LM' if what == 'loss' else 'gain of neighbours'}, nats",
                    fontsize=9.5,
                )
                axes.grid(color=INK, alpha=0.12, linewidth=0.6)
            grid[1][column].set_xlabel(label)

    return Figure("location", caption, drawing("location", caption, (7.0, 4.8), draw))


def location_table(results: Results) -> Table:
    """Correlations of loss and gain with the place, token by token."""
    cells = []
    for row in ruled_out.location(results.scale).conditions:
        for place, where in PLACES.items() if row in results else ():
            each = [
                (words, getattr(getattr(results.measurement(row), place), what))
                for what, words in QUANTITIES.items()
            ]
            cells += [
                (
                    f"{row.lm.name}: {words} and {where}",
                    f"{r.tokens:,}",
                    signed(r.correlation.r, 3),
                    f"{signed(r.correlation.low, 3)} to {signed(r.correlation.high, 3)}",
                )
                for words, r in each
                if r.correlation is not None
            ]
    note = (
        "Pearson's r over tokens, documents resampled for the interval. In the window: of tokens "
        "behind a document's "
        "first window."
    )
    return make_table(("of", "tokens", "correlation", "95 %"), tuple(cells), note)


def _cut(scale: Scale) -> str:
    return (
        f", of which the first {scale.portions.test_characters:,} characters are used"
        if scale.portions.test_characters
        else ""
    )


def reach_table(results: Results) -> Table:
    """Stolen probabilities."""
    cells = []
    for row in ruled_out.stolen(results.scale).conditions:
        if row in results:
            r = results.measurement(row)
            cells.append(
                (
                    row.lm.name,
                    f"{r.lm.width or 0:,}",
                    f"{r.vocabulary:,}",
                    f"{r.unreachable:,}",
                    f"{r.linear_programs:,}",
                )
            )
    return make_table(
        (
            "LM",
            "width",
            "words",
            "that no state can make the most probable",
            "decided by a linear programme",
        ),
        tuple(cells),
    )
