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
from knnlm_paper.conditions import KNN, Combined, Learned, PaperCondition
from knnlm_paper.expected import Published, published
from knnlm_paper.experiments import beyond, capacity, clusters, interpolated, softmaxes
from knnlm_paper.experiments.adaptive import SIZINGS
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.findings import OVER
from knnlm_paper.report.figures import Line, plot
from knnlm_paper.report.formats import make_row, make_table, number, percent
from knnlm_paper.report.tables import changes
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
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
    results: Results, rows: Sequence[ComponentSpec], theirs: Iterable[Published] = ()
) -> Table:
    """Any substitutes, all seeds of one in one line, then the paper's lines."""
    once = dict.fromkeys(row.with_seed(0) for row in rows)
    cells = [line for row in once if (line := _line(results, row)) is not None]
    cells = [*_calibrated(results), *cells] if cells else []
    printed = [
        (
            _their_words(r),
            "",
            "",
            number(r.cells["ppl"]),
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


def _calibrated(results: Results) -> list[tuple[str, ...]]:
    """The LM with its own temperature and a unigram share: what must be gained beyond."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    if knn not in results:
        return []
    base = results.measurement(knn).base
    per_word = (base.calibrated_ppl / base.ppl) ** (base.tokens / base.words) - 1
    share = share_text(share_of_calibration(results, knn))
    ppl = number(base.calibrated_ppl)
    cost = f"{results.scale.shape('main').vocab_size:,}"
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


def _line(results: Results, row: ComponentSpec) -> tuple[str, ...] | None:
    names: list[PaperCondition[Any]] = [*results.learning_seeds(row)]
    if not names:
        return None
    each: list[Any] = [results.measurement(name) for name in names]
    learned, tuned = each[0].added, [r.own_tau for r in each]
    one: list[Any] = [r.as_learned for r in each if hasattr(r, "as_learned")]
    fit = getattr(each[0], "fit", None)
    ppls = [at.ppl for at in tuned]
    mean = _mean(ppls)
    search = " + store" if isinstance(row, Combined) and row.neighbors else ""
    return (
        row.label,
        f"{learned.widths:.2f}{search}",
        f"{learned.multiplications:,}{search}",
        number(_mean([at.alone_ppl for at in one])) if one else "",
        f"{np.mean([at.lam for at in one]):.3f}" if one else "",
        number(_mean([at.ppl for at in one])) if one else "",
        number(mean),
        f"{number(min(ppls))} to {number(max(ppls))}"
        if len(ppls) > 1 and np.isfinite(mean)
        else "",
        changes(each[0], mean)[0],
        *_shares(results, names),
        number(float(np.mean([at.oracle for at in one]))) if one else "",
        f"{np.mean([at.helping for at in one]):.3f}" if one else "",
        "" if fit is None or fit.alike is None else f"{fit.alike:.3f}",
        "" if fit is None else f"{fit.best_step:,} of {fit.steps:,}",
    )


def _mean(values: Sequence[float]) -> float:
    """Infinite where one of them is."""
    return float(np.mean(values))


def _shares(results: Results, names: Sequence[PaperCondition[Any]]) -> list[str]:
    """Of what exact search on att gains, over the LM and over the calibrated LM."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    return [
        share_text(share_of_gain(results, names, knn, field, base))
        for field, (base, _) in OVER.items()
    ]


def share_text(found: Effect) -> str:
    """A share with its interval."""
    if not np.isfinite(found.value):
        return ""
    text = f"{100 * found.value:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f})"
    return text.replace("-", "−").replace(" %", "\u00a0%")


def heads_table(results: Results) -> Table:
    """Table 2."""
    rows: list[ComponentSpec] = [Learned(state=s, metric=m) for s in STATES for m in METRICS[::-1]]
    rows += [both(), Combined((Learned(),), (exactly(paper_retrieval(results.scale)),))]
    found = table(results, rows, published()["tab:input_representation"])
    place = sum(not row[0].text.startswith("paper") for row in found.rows)
    arms = [replace(exactly(paper_retrieval(results.scale)), state=s) for s in STATES]
    ours = (
        [make_row(line) for arm in arms if (line := _neighbours(results, arm)) is not None]
        if found.rows
        else []
    )
    return replace(found, rows=(*found.rows[:place], *ours, *found.rows[place:]))


def _neighbours(results: Results, arm: Retrieval) -> tuple[str, ...] | None:
    """The line of an exact search, beside what is to stand in its place."""
    r = results.find(KNN(arm))
    if r is None:
        return None
    shape = results.scale.shape(arm.lm)
    cost, mean = r.entries * shape.width, r.own_tau.ppl
    shown = (
        f"neighbours ({arm.state}, exact search)",
        f"{cost / (shape.vocab_size * shape.width):.2f}",
        f"{cost:,}",
        number(r.tau_1.component_ppl),
        f"{r.tau_1.lam:.3f}",
        number(r.tau_1.ppl),
        number(mean),
        "",
        changes(r, mean)[0],
        *_shares(results, [KNN(arm)]),
        number(r.tau_1.oracle),
        f"{r.tau_1.helping:.3f}",
    )
    return (*shown, *[""] * (len(COLUMNS) - len(shown)))


def capacity_table(results: Results) -> Table:
    """Appendix B's table."""
    rows = [Learned(state=s, size=n) for s in STATES for n in results.scale.learning.sizes]
    return table(results, rows, published()["tab:softmax_bottleneck"])


def adaptive_table(results: Results) -> Table:
    """Appendix C.1's table."""
    rows = [
        Learned(state=s, size=results.scale.learning.adaptive, sizing=how)
        for s in STATES
        for how in SIZINGS
    ]
    return table(results, rows, published()["tab:adaptive_results"])


def softmaxes_table(results: Results) -> Table:
    """Appendix C.2's table."""
    rows = [r for r in softmaxes.experiment(results.scale).conditions if isinstance(r, Learned)]
    return table(results, rows, published()["tab:mos_results"])


def others_table(results: Results) -> Table:
    """Clusters and the interpolated loss, of which the paper prints no numbers."""
    every = (
        *clusters.experiment(results.scale).conditions,
        *interpolated.experiment(results.scale).conditions,
    )
    return table(results, [r for r in every if isinstance(r, Learned)])


def beyond_table(results: Results) -> Table:
    """What is not in the paper."""
    return table(
        results,
        [
            row
            for row in beyond.experiment(results.scale).conditions
            if isinstance(row, Learned | Combined)
        ],
    )


def rates_table(results: Results) -> Table:
    """Validation loss of the mixture at each learning rate that was tried, of the smallest of every
    family."""
    found: dict[str, tuple[str, ...]] = {}
    for row in results.of_kind(Learned):
        fit = results.measurement(row).fit
        if fit is not None:
            state = row.state.replace("both", "att and ffn")
            name = f"{row.component} on {state}, {row.metric.upper()}"
            name += "" if row.lam is None else ", loss of the mixture"
            name += ", taught by neighbors" if row.soft else ""
            name += (
                " (with and without an embedding of their own)"
                if row.component == "mixture-of-softmaxes"
                else ""
            )
            losses = "; ".join(f"{rate}: {_loss(loss)}" for rate, loss in fit.rates.items())
            found[name] = (name, losses, f"{fit.rate:g}")
    return make_table(
        ("family", "validation loss of the mixture at each rate", "rate used"),
        tuple(found[name] for name in sorted(found)),
    )


def _loss(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else "too high"


def capacity_figure(results: Results) -> Figure | None:
    """Perplexity against embeddings for each word (fig:increasing_embedding_size)."""
    lines = []
    for state in STATES:
        for field, at in (("as_learned", "τ = 1"), ("own_tau", "its own τ")):
            points = []
            for n in results.scale.learning.sizes:
                ppls = [
                    results.ppl(x, field)
                    for x in results.learning_seeds(Learned(state=state, size=n))
                ]
                if ppls:
                    points.append((n, float(np.mean(ppls)), (min(ppls), max(ppls))))
            if points:
                lines.append(Line(f"{state}, {at}", *map(list, zip(*points, strict=True))))
    if not lines:
        return None
    measured = results.only(capacity.experiment(results.scale).conditions)
    base = results.ppl(next(iter(measured)), "base")
    knn = results.find(KNN(exactly(paper_retrieval(results.scale))))
    level = None if knn is None else knn.own_tau.ppl
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
        base=base,
        dotted=None if level is None else (level, "neighbours"),
    )
