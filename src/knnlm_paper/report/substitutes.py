"""Substitutes of the store: their tables, ours beside the paper's, and perplexity against
embeddings for each word.

Seeds of one substitute are one line: means, and the lowest and highest perplexity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.report.document import Figure, Table
from knnlm.similarity import METRICS
from knnlm.training.initial import NOISE
from knnlm_paper.beyond_claims import describe
from knnlm_paper.expected import Published, published
from knnlm_paper.experiments import beyond, capacity, clusters, interpolated, softmaxes
from knnlm_paper.experiments.adaptive import SIZINGS
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.findings import OVER, Records, with_seed
from knnlm_paper.report.figures import Line, plot
from knnlm_paper.report.formats import make_row, make_table, number, percent
from knnlm_paper.report.tables import changes
from knnlm_paper.rows import Arm, Combined, Learned
from knnlm_paper.scales import Scale
from knnlm_paper.shares import Effect, share_of_calibration, share_of_gain

ComponentSpec = Learned | Combined
COLUMNS = (
    "substitute",
    "added, V×D",
    "multiplications",
    "PPL alone",
    "λ",
    "interp. as learned",
    "interp. at its own τ",
    "seeds",
    "vs base",
    "share over the LM",
    "share over the calibrated LM",
    "oracle",
    "helping",
    "alike",
    "learned",
)
NOTE = (
    "Added: numbers beside the LM's, in output embeddings (V×D); of clusters the centroids and the "
    "shares of their "
    "words, not the words' ids. Multiplications: for one token. Share: of what exact "
    "search on att gains in log-likelihood on test text, 95 % interval; over the LM it has in it "
    "what calibrating the "
    "LM gains alone, so the share over the calibrated LM says how much of the retrieval is "
    "recovered. As learned: at "
    "τ = 1 (clusters learned further: at the τ they began with). vs base: at its own τ, per word. "
    "Alike: mean cosine "
    f"of the embeddings of one word, which begin with {1 / (1 + NOISE**2):.2f}. Learned: updates "
    "until the best on "
    "validation, of all that were made. Lines of several seeds are means (alike, learned and "
    "costs: of the first); "
    "seeds: lowest to highest perplexity."
)


def table(
    records: Records, scale: Scale, rows: Sequence[ComponentSpec], theirs: Iterable[Published] = ()
) -> Table:
    """Any substitutes, all seeds of one in one line, then the paper's lines."""
    once = dict.fromkeys(
        first for row in rows if isinstance(first := with_seed(row, 0), Learned | Combined)
    )
    cells = [line for row in once if (line := _line(records, scale, row)) is not None]
    cells = [*_calibrated(records, scale), *cells] if cells else []
    printed = [
        (
            _their_words(r),
            "",
            "",
            number(r.cells["ppl"] if np.isfinite(r.cells["ppl"]) else None),
            f"{r.cells['lambda']:.3f}",
            number(r.cells["interp"], 3),
            "",
            "",
            percent(r.change),
            "",
            "",
            number(r.cells["oracle"], 3),
            f"{r.cells['helping']:.3f}",
            "",
            "",
        )
        for r in theirs
    ]
    return make_table(COLUMNS, (*cells, *printed) if cells else (), NOTE)


def _their_words(row: Published) -> str:
    parts = [f"paper: {row.name}"]
    parts += [str(row.fields["key"])] if row.fields["key"] not in row.name else []
    parts += [f"{row.fields['mixtures']} softmaxes"] if "mixtures" in row.fields else []
    return ", ".join(parts)


def _calibrated(records: Records, scale: Scale) -> list[tuple[str, ...]]:
    """The LM with its own temperature and a unigram share: what must be gained beyond."""
    knn = exactly(paper_arm(scale)).name
    if knn not in records:
        return []
    base = records[knn]["results"]["base"]
    per_word = (base["calibrated_ppl"] / base["ppl"]) ** (base["tokens"] / base["words"]) - 1
    share = share_text(share_of_calibration(records, knn))
    ppl = number(base["calibrated_ppl"])
    cost = f"{scale.shape('main').vocab_size:,}"
    shown = [
        "the calibrated LM",
        "0.00",
        cost,
        ppl,
        "",
        "",
        ppl,
        "",
        percent(per_word),
        share,
        "0\u00a0%",
    ]
    return [(*shown, *[""] * (len(COLUMNS) - len(shown)))]


def words(row: ComponentSpec) -> str:
    """A substitute in words."""
    if isinstance(row, Combined):
        return describe(row)
    n = f"{row.size:g}"
    kinds = {
        "embeddings": f"{n} embeddings a word" if row.size > 1 else "an embedding a word",
        "softmaxes": f"{n} softmaxes" + (", own embedding" if row.own_embedding else ""),
        "network": f"network, inner width {n}",
        "clusters": f"{n}V clusters" + (", learned further" if row.fitted else ""),
    }
    parts = [row.state.replace("both", "att and ffn"), kinds[row.kind]]
    parts += ["L2"] if row.metric == "l2" and row.kind != "clusters" else []
    parts += [f"by {row.sizing}"] if row.sizing != "equal" else []
    parts += [f"loss of the mixture at λ = {row.lam:g}"] if row.lam is not None else []
    parts += [f"{row.soft:.0%} taught by neighbours"] if row.soft else []
    return ", ".join(parts)


def seeds_of(records: Records, row: ComponentSpec) -> list[str]:
    """Names of the row for every seed that was measured."""
    found: list[str] = []
    while (name := with_seed(row, len(found)).name) in records and name not in found:
        found.append(name)
    return found


def _line(records: Records, scale: Scale, row: ComponentSpec) -> tuple[str, ...] | None:
    names = seeds_of(records, row)
    if not names:
        return None
    each = [records[name]["results"] for name in names]
    learned, tuned = each[0]["learned"], [r["tuned"] for r in each]
    one: list[Any] = [r["as_learned"] for r in each if "as_learned" in r]
    ppls = [at["ppl"] for at in tuned]
    mean = _mean(ppls)
    search = " + store" if isinstance(row, Combined) and row.neighbours else ""
    return (
        words(row),
        f"{learned['widths']:.2f}{search}",
        f"{learned['multiplications']:,}{search}",
        number(_mean([at["alone_ppl"] for at in one])) if one else "",
        f"{np.mean([at['lambda'] for at in one]):.3f}" if one else "",
        number(_mean([at["ppl"] for at in one])) if one else "",
        number(mean),
        f"{number(min(ppls))} to {number(max(ppls))}" if len(ppls) > 1 and mean is not None else "",
        changes(each[0], mean)[0],
        *_shares(records, scale, names),
        number(float(np.mean([at["oracle"] for at in one]))) if one else "",
        f"{np.mean([at['helping'] for at in one]):.3f}" if one else "",
        "" if learned.get("alike") is None else f"{learned['alike']:.3f}",
        f"{learned['best_step']:,} of {learned['steps']:,}" if "steps" in learned else "",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """None, which stands for infinity, where one of them is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _shares(records: Records, scale: Scale, names: Sequence[str]) -> list[str]:
    """Of what exact search on att gains, over the LM and over the calibrated LM."""
    knn = exactly(paper_arm(scale)).name
    return [
        share_text(share_of_gain(records, names, knn, field, base))
        for field, (base, _) in OVER.items()
    ]


def share_text(found: Effect) -> str:
    """A share with its interval."""
    if not np.isfinite(found.value):
        return ""
    text = f"{100 * found.value:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f})"
    return text.replace("-", "−").replace(" %", "\u00a0%")


def heads_table(records: Records, scale: Scale) -> Table:
    """Table 2."""
    rows: list[ComponentSpec] = [Learned(state=s, metric=m) for s in STATES for m in METRICS[::-1]]
    rows += [both(), Combined((Learned(),), (exactly(paper_arm(scale)),))]
    found = table(records, scale, rows, published()["tab:input_representation"])
    place = sum(not row[0].text.startswith("paper") for row in found.rows)
    arms = [replace(exactly(paper_arm(scale)), state=s) for s in STATES]
    ours = (
        [make_row(line) for arm in arms if (line := _neighbours(records, scale, arm)) is not None]
        if found.rows
        else []
    )
    return replace(found, rows=(*found.rows[:place], *ours, *found.rows[place:]))


def _neighbours(records: Records, scale: Scale, arm: Arm) -> tuple[str, ...] | None:
    """The line of an exact search, beside what is to stand in its place."""
    if arm.name not in records:
        return None
    r = records[arm.name]["results"]
    shape = scale.shape(arm.lm)
    cost, mean = r["rows"] * shape.width, r["tuned"]["ppl"]
    shown = (
        f"neighbours ({arm.state}, exact search)",
        f"{cost / (shape.vocab_size * shape.width):.2f}",
        f"{cost:,}",
        number(r["tau_1"]["component_ppl"]),
        f"{r['tau_1']['lambda']:.3f}",
        number(r["tau_1"]["ppl"]),
        number(mean),
        "",
        changes(r, mean)[0],
        *_shares(records, scale, [arm.name]),
        number(r["tau_1"]["oracle"]),
        f"{r['tau_1']['helping']:.3f}",
    )
    return (*shown, *[""] * (len(COLUMNS) - len(shown)))


def capacity_table(records: Records, scale: Scale) -> Table:
    """Appendix B's table."""
    rows = [Learned(state=s, size=n) for s in STATES for n in scale.learning.sizes]
    return table(records, scale, rows, published()["tab:softmax_bottleneck"])


def adaptive_table(records: Records, scale: Scale) -> Table:
    """Appendix C.1's table."""
    rows = [
        Learned(state=s, size=scale.learning.adaptive, sizing=how)
        for s in STATES
        for how in SIZINGS
    ]
    return table(records, scale, rows, published()["tab:adaptive_results"])


def softmaxes_table(records: Records, scale: Scale) -> Table:
    """Appendix C.2's table."""
    rows = [r for r in softmaxes.recipe(scale).rows if isinstance(r, Learned)]
    return table(records, scale, rows, published()["tab:mos_results"])


def others_table(records: Records, scale: Scale) -> Table:
    """Clusters and the interpolated loss, of which the paper prints no numbers."""
    every = (*clusters.recipe(scale).rows, *interpolated.recipe(scale).rows)
    return table(records, scale, [r for r in every if isinstance(r, Learned)])


def beyond_table(records: Records, scale: Scale) -> Table:
    """What is not in the paper."""
    return table(
        records, scale, [r for r in beyond.recipe(scale).rows if isinstance(r, Learned | Combined)]
    )


def rates_table(records: Records) -> Table:
    """Validation loss of the mixture at each learning rate that was tried, of the smallest of every
    family."""
    found: dict[str, tuple[str, ...]] = {}
    for record in records.values():
        learned = record["results"].get("learned", {})
        if "rates" in learned:
            what = record["what"]
            state = what["state"].replace("both", "att and ffn")
            name = f"{what['kind']} on {state}, {what['metric'].upper()}"
            name += "" if what["lam"] is None else ", loss of the mixture"
            name += ", taught by neighbours" if what["soft"] else ""
            name += (
                " (with and without an embedding of their own)"
                if what["kind"] == "softmaxes"
                else ""
            )
            losses = "; ".join(f"{rate}: {_loss(loss)}" for rate, loss in learned["rates"].items())
            found[name] = (name, losses, f"{learned['rate']:g}")
    return make_table(
        ("family", "validation loss of the mixture at each rate", "rate used"),
        tuple(found[name] for name in sorted(found)),
    )


def _loss(value: float | None) -> str:
    return "too high" if value is None else f"{value:.4f}"


def capacity_figure(records: Records, scale: Scale) -> Figure | None:
    """Perplexity against embeddings for each word (fig:increasing_embedding_size)."""
    lines = []
    for state in STATES:
        for field, at in (("as_learned", "τ = 1"), ("tuned", "its own τ")):
            points = []
            for n in scale.learning.sizes:
                ppls = [
                    records[x]["results"][field]["ppl"]
                    for x in seeds_of(records, Learned(state=state, size=n))
                ]
                if ppls:
                    points.append((n, float(np.mean(ppls)), (min(ppls), max(ppls))))
            if points:
                lines.append(Line(f"{state}, {at}", *map(list, zip(*points, strict=True))))
    if not lines:
        return None
    first = next(
        r for row in capacity.recipe(scale).rows if (r := records.get(row.name)) is not None
    )
    knn = records.get(exactly(paper_arm(scale)).name)
    level = None if knn is None else knn["results"]["tuned"]["ppl"]
    caption = (
        "Test perplexity of the mixture against the embeddings of each word, one recipe for all; "
        "bars span the seeds. "
        "Dashed: the LM alone"
        + ("." if level is None else "; dotted: neighbours (exact search on att, own τ).")
    )
    return plot(
        "capacity",
        caption,
        lines,
        "embeddings for each word",
        base=first["results"]["base"]["ppl"],
        dotted=None if level is None else (level, "neighbours"),
    )
