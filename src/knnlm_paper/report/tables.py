"""Records → tables, ours beside the paper's. A row that was not measured is left out. Knows nothing
of Markdown."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.report.document import Table
from knnlm_paper.claims import FIELDS
from knnlm_paper.conditions import KNN, FullDatastore, NeighborCounts, TemperatureCurve
from knnlm_paper.expected import published
from knnlm_paper.experiments import audit, baselines, recompute
from knnlm_paper.report.formats import make_row, make_table, number, percent
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import Scale

PAIRS = {
    "index": "FAISS",
    "exact": "real",
    "half": "real in fp16",
    "flipped": "flipped",
}


def setting(arm: Retrieval) -> str:
    """Mask and score in the paper's words."""
    return f"{PAIRS[arm.search]} mask, {PAIRS[arm.score]} score"


def baselines_table(results: Results, field: str) -> Table:
    """Table 1: every state and metric at one of the three τ, and the paper's rows."""
    label = "tab:knn_baselines"
    reference = paper_retrieval(results.scale)
    rows = []
    for row in baselines.experiment(results.scale).conditions:
        assert isinstance(row, KNN)
        r, arm = results.find(row), row.retrieval
        if r is None:
            continue
        both = results.find(KNN(replace(reference, lm=arm.lm)))
        at = getattr(r, field)
        rows.append(
            (
                f"{arm.lm} {arm.state} {arm.metric.upper()}, {setting(arm)}",
                f"{at.temperature:.3g}",
                number(at.component_ppl),
                f"{at.lam:.3f}",
                number(at.ppl),
                *changes(r, at.ppl),
                number(at.oracle),
                _overlap(at, both, r.base.tokens),
                f"{at.helping:.3f}",
            )
        )
    for theirs in published()[label] if rows and field != "own_tau" else ():
        c = theirs.cells
        rows.append(
            (
                f"paper {theirs.setting['state']} {theirs.setting['metric'].upper()}, FAISS mask, "
                "FAISS score",
                "1",
                number(c["ppl"]),
                f"{c['lambda']:.3f}",
                number(c["interp"], 3),
                percent(theirs.change),
                "",
                number(c["oracle"], 3),
                f"{c['overlap']:.3f}",
                f"{c['helping']:.3f}",
            )
        )
    columns = (
        "row",
        "τ",
        "PPL",
        "λ",
        "interp.",
        "vs base",
        "vs calibrated",
        "oracle",
        "overlap",
        "helping",
    )
    return make_table(
        columns, tuple(rows), f"The paper's base LM: {published()[label][0].base:g}, per word."
    )


def recompute_table(results: Results) -> Table:
    """Table 3 and its missing arm, and the paper's rows."""
    label = "tab:knn_recompute"
    arms = [
        (f"{r.retrieval.lm}: {setting(r.retrieval)}", r.retrieval)
        for r in recompute.experiment(results.scale).conditions
        if isinstance(r, KNN)
    ]
    table = arms_table(results, arms)
    theirs = tuple(
        (
            f"paper (λ {row.cells['lambda']:g}): {row.name}",
            "",
            number(row.cells["interp"], 3),
            percent(row.change),
            *[""] * (len(table.columns) - 5),
            number(row.cells["oracle"], 3),
        )
        for row in published()[label]
    )
    return replace(table, rows=(*table.rows, *map(make_row, theirs))) if table.rows else table


def arms_table(results: Results, arms: Sequence[tuple[str, Retrieval]]) -> Table:
    """Any arms at both τ, with recall."""
    rows = []
    for name, arm in arms:
        r = results.find(KNN(arm))
        if r is None:
            continue
        recall = "" if r.recall is None else f"{r.recall:.2f}"
        cells: list[str] = []
        for field in FIELDS:
            at = getattr(r, field)
            cells += [number(at.ppl), changes(r, at.ppl)[0]]
        own = r.own_tau
        rows.append(
            (
                name,
                recall,
                *cells,
                changes(r, own.ppl)[1],
                f"{own.lam:.3f}",
                f"{own.temperature:.3g}",
                f"{r.coverage:.3f}",
                number(own.oracle),
            )
        )
    columns = (
        "row",
        "recall",
        "τ = 1",
        "vs base",
        "one τ",
        "vs base",
        "own τ",
        "vs base",
        "vs calibrated",
        "λ",
        "τ",
        "coverage",
        "oracle",
    )
    return make_table(columns, tuple(rows))


def sizes_table(results: Results) -> Table:
    """Recall of the mask at each size: smaller stores have fewer lists of which as many are
    probed."""
    arms = [
        (
            f"{fraction:.0%} of the store",
            replace(paper_retrieval(results.scale), fraction=fraction),
        )
        for fraction in results.scale.fractions
    ]
    return arms_table(results, arms)


def temperatures_table(results: Results) -> Table:
    """Where the best τ lies for each mask and score, here and in the paper's code."""
    theirs = next(row.cells for row in published()["text"] if "index_index" in row.cells)
    rows = []
    for fraction in (results.scale.small, 1.0):
        for arm in recompute.four(replace(paper_retrieval(results.scale), fraction=fraction)):
            found = results.find(TemperatureCurve(arm))
            if found is None:
                continue
            points = found.points
            best, one = (
                min(points, key=of)
                for of in (lambda p: p.valid_ppl, lambda p: abs(p.temperature - 1))
            )
            paper = theirs.get(f"{arm.search}_{arm.score}") if fraction == 1 else None
            rows.append(
                (
                    f"{fraction:.0%} of the store, {setting(arm)}",
                    f"{best.temperature:.3g}",
                    f"{best.units:.2f}",
                    f"{one.units:.3f}",
                    number(one.ppl),
                    number(best.ppl),
                    "" if paper is None else f"{paper:g}",
                )
            )
    columns = (
        "row",
        "best τ",
        "in units",
        "τ = 1 in units",
        "interp. at τ = 1",
        "interp. at best τ",
        "best τ of the paper's code",
    )
    return make_table(columns, tuple(rows))


def changes(r: Any, ppl: float) -> tuple[str, str]:
    """Of perplexity per word, against the LM and against the calibrated LM."""
    if not math.isfinite(ppl):
        return "", ""
    base = r.base
    pieces = base.tokens / base.words
    over_lm, over_calibrated = (
        percent((ppl / of) ** pieces - 1) for of in (base.ppl, base.calibrated_ppl)
    )
    return over_lm, over_calibrated


def counts_table(
    results: Results, rows: Sequence[NeighborCounts], whole: Sequence[FullDatastore]
) -> Table:
    """Perplexity against k, and with all rows."""
    cells = []
    for row in rows:
        found = results.find(row)
        if found is None:
            continue
        for point in found.points:
            cells.append(
                (
                    f"{setting(row.retrieval)}, k = {point.k:,}",
                    f"{point.coverage:.3f}",
                    number(point.tau_1.ppl),
                    number(point.own_tau.ppl),
                    f"{point.own_tau.temperature:.3g}",
                    f"{point.own_tau.lam:.3f}",
                )
            )
    for every in whole:
        full = results.find(every)
        if full is not None:
            tuned = full.own_tau
            cells.append(
                (
                    f"{every.lm.name}: {every.state}, {every.metric.upper()}, all "
                    f"{full.entries:,} rows",
                    f"{tuned.coverage:.3f}",
                    "",
                    number(tuned.ppl),
                    f"{tuned.temperature:.3g}",
                    f"{tuned.lam:.3f}",
                )
            )
    return make_table(
        ("row", "coverage", "interp. at τ = 1", "interp. tuned", "τ", "λ"), tuple(cells)
    )


def norm_arms(scale: Scale) -> list[tuple[str, Retrieval]]:
    """The five states, for every seed."""
    names = {
        "att": "att",
        "att-raw": "att before its LayerNorm",
        "att-earlier": "att of the block before",
        "ffn": "ffn",
        "ffn-normed": "ffn after a LayerNorm",
    }
    rows = audit.norm(scale).conditions
    return [
        (f"{r.retrieval.lm}: {names[r.retrieval.state]}, {setting(r.retrieval)}", r.retrieval)
        for r in rows
        if isinstance(r, KNN)
    ]


def units_table(results: Results) -> Table:
    """F2 and F3: the same rows with λ of the reported text, and per token and per word."""
    rows = []
    for lm in results.scale.seeds:
        arm = paper_retrieval(results.scale, lm)
        r = results.find(KNN(arm))
        if r is None:
            continue
        at, base = r.tau_1, r.base
        rows.append(
            (
                f"{lm}: {setting(arm)}, τ = 1",
                number(at.ppl),
                number(at.ppl_of_test_lambda),
                percent(at.ppl / base.ppl - 1),
                number(base.word_ppl),
                number(at.word_ppl),
                percent(at.word_ppl / base.word_ppl - 1),
            )
        )
    columns = (
        "row",
        "λ of validation",
        "λ of the test text itself",
        "vs base per token",
        "base per word",
        "interp. per word",
        "vs base per word",
    )
    return make_table(columns, tuple(rows))


def _overlap(at: Any, reference: Any, tokens: int) -> str:
    """Share of tokens on which this row and the paper's (att, L2, at its best τ) agree whether kNN
    or the LM is better."""
    if reference is None:
        return ""
    mine, other = (_bits(a.helped, tokens) for a in (at, reference.one_tau))
    return f"{float(np.mean(mine == other)):.3f}"


def _bits(text: str, count: int) -> Any:
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count)
