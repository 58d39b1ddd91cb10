"""The hypotheses that the paper ruled out: tables and figures, ours beside the paper's."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knnlm.formats import signed
from knnlm.report.document import Figure, Table
from knnlm.report.svg import INK, drawing
from knnlm_paper.expected import published
from knnlm_paper.experiments import ensembling, ruled_out
from knnlm_paper.findings import Records
from knnlm_paper.place_findings import PLACES, QUANTITIES
from knnlm_paper.report.figures import Line, plot, series
from knnlm_paper.report.formats import make_table, number, percent
from knnlm_paper.report.tables import changes
from knnlm_paper.rows import Ensemble, Listed
from knnlm_paper.scales import Scale


def listed_table(records: Records, rows: Sequence[Any]) -> Table:
    """Lists of words in the place of neighbours."""
    cells = []
    for row in rows:
        assert isinstance(row, Listed)
        if row.name not in records:
            continue
        r = records[row.name]["results"]
        one, own, over = r["tau_1"], r["tuned"], r["on_calibrated"]
        cells.append(
            (
                _list_words(row),
                f"{r['coverage']:.3f}",
                number(one["ppl"]),
                number(own["ppl"]),
                f"{own['lambda']:.3f}",
                _tau(own),
                changes(r, own["ppl"])[0],
                number(over["ppl"]),
                changes(r, over["ppl"])[1],
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
    if at["lambda"] < 0.001:
        return ""
    return "∞" if at["temperature"] > 1000 else f"{at['temperature']:.3g}"


def _list_words(row: Listed) -> str:
    if row.retrieved is None:
        words = f"the LM's own {row.k:,} likeliest words"
    else:
        score = "the LM's logits" if row.score == "logits" else "L2 to W_sm"
        words = f"words of {row.k:,} neighbours by {row.retrieved.state}, scored by {score}"
        words += "" if row.duplicates else ", each once"
    return words if row.of == "main" else f"{row.of}: {words}"


def ensembles_table(records: Records, rows: Sequence[Any], label: str = "") -> Table:
    """LMs and neighbours mixed, then the paper's lines."""
    cells = []
    for row in dict.fromkeys(rows):
        assert isinstance(row, Ensemble)
        if row.name not in records:
            continue
        r = records[row.name]["results"]
        one = r["others"][0] if len(r["others"]) == 1 and not row.neighbours else None
        cells.append(
            (
                members(row),
                number(one["train_ppl"], 1) if one and one["train_ppl"] is not None else "",
                number(one["ppl"]) if one else "",
                number(one["calibrated_ppl"]) if one else "",
                " / ".join(f"{s:.2f}" for s in r["tuned"]["shares"]),
                number(r["tuned"]["ppl"]),
                changes(r, r["tuned"]["ppl"])[0],
                number(r["on_calibrated"]["ppl"]),
                changes(r, r["on_calibrated"]["ppl"])[1],
                number(one["oracle"]) if one else "",
                f"{one['helping']:.3f}" if one else "",
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


def members(row: Ensemble) -> str:
    """What is mixed with the main LM."""
    names = [lm + (f" at update {step:,}" if step is not None else "") for lm, step in row.others]
    return " + ".join([*names, *(f"neighbours ({arm.state})" for arm in row.neighbours)])


def ensembles_figure(records: Records, scale: Scale) -> Figure | None:
    """K LMs against K-1 LMs with neighbours (fig:ensemble)."""
    lines, most = [], len(scale.ruled_out.ensemble)
    for field, words in (("tuned", "as they are"), ("on_calibrated", "calibrated")):
        for knn in (False, True):
            points = []
            for count in range(most + 1):
                row = ensembling.with_lms(scale, count, knn)
                value = _of_ensemble(records, scale, row, field)
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


def _of_ensemble(records: Records, scale: Scale, row: Ensemble, field: str) -> float | None:
    """Its perplexity; of the main LM alone, that of its base."""
    if not row.others and not row.neighbours:
        first = records.get(ensembling.with_lms(scale, 0, knn=True).name)
        return (
            None
            if first is None
            else first["results"]["base"]["ppl" if field == "tuned" else "calibrated_ppl"]
        )
    return records[row.name]["results"][field]["ppl"] if row.name in records else None


def location_figure(records: Records, scale: Scale) -> Figure | None:
    """Loss and gain against the place in the window and in the document (appendix E.3)."""
    row = ruled_out.location(scale).rows[0]
    if row.name not in records:
        return None
    r = records[row.name]["results"]
    caption = (
        "The LM's loss and what neighbours gain (nats per token) against the tokens of context in "
        "the window (behind a "
        f"document's first window) and against the place in the document{_cut(scale)}; each point "
        "is the mean over a "
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
                points = r[place][what]["ranges"]
                series(
                    axes, line, Line("", [p["place"] for p in points], [p["mean"] for p in points])
                )
                axes.set_title(
                    f"{'loss of the LM' if what == 'loss' else 'gain of neighbours'}, nats",
                    fontsize=9.5,
                )
                axes.grid(color=INK, alpha=0.12, linewidth=0.6)
            grid[1][column].set_xlabel(label)

    return Figure("location", caption, drawing("location", caption, (7.0, 4.8), draw))


def location_table(records: Records, scale: Scale) -> Table:
    """Correlations of loss and gain with the place, token by token."""
    cells = []
    for row in ruled_out.location(scale).rows:
        for place, where in PLACES.items() if row.name in records else ():
            each = [
                (words, records[row.name]["results"][place][what])
                for what, words in QUANTITIES.items()
            ]
            cells += [
                (
                    f"{row.lm[0]}: {words} and {where}",
                    f"{r['tokens']:,}",
                    signed(r["r"], 3),
                    f"{signed(r['low'], 3)} to {signed(r['high'], 3)}",
                )
                for words, r in each
                if "r" in r
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


def reach_table(records: Records, scale: Scale) -> Table:
    """Stolen probabilities."""
    cells = []
    for row in ruled_out.stolen(scale).rows:
        if row.name in records:
            r = records[row.name]["results"]
            cells.append(
                (
                    row.lm[0],
                    f"{r['lm'].get('width', 0):,}",
                    f"{r['words']:,}",
                    f"{r['unreachable']:,}",
                    f"{r['programmes']:,}",
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
