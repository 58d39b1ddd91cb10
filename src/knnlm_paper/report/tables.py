"""Records → tables, ours beside the paper's. A row that was not measured is left out. Knows nothing
of Markdown."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.report.document import Table
from knnlm_paper.claims import FIELDS
from knnlm_paper.expected import published
from knnlm_paper.experiments import audit, baselines, recompute
from knnlm_paper.findings import Records
from knnlm_paper.report.formats import make_row, make_table, number, percent
from knnlm_paper.rows import Arm, Counts, Evaluate, Temperatures, Unmasked
from knnlm_paper.scales import Scale

PAIRS = {
    "faiss": "FAISS",
    "exact": "real",
    "real": "real",
    "half": "real in fp16",
    "flipped": "flipped",
}


def setting(arm: Arm) -> str:
    """Mask and score in the paper's words."""
    return f"{PAIRS[arm.mask]} mask, {PAIRS[arm.score]} score"


def baselines_table(records: Records, scale: Scale, field: str) -> Table:
    """Table 1: every state and metric at one of the three τ, and the paper's rows."""
    label = "tab:knn_baselines"
    reference = baselines.paper_arm(scale)
    rows = []
    for row in baselines.recipe(scale).rows:
        assert isinstance(row, Evaluate)
        found, arm = records.get(row.name), row.arm
        if found is None:
            continue
        r = found["results"]
        both = records.get(replace(reference, lm=arm.lm).name)
        at = r[field]
        rows.append(
            (
                f"{arm.lm} {arm.state} {arm.metric.upper()}, {setting(arm)}",
                f"{at['temperature']:.3g}",
                number(at["component_ppl"]),
                f"{at['lambda']:.3f}",
                number(at["ppl"]),
                *changes(r, at["ppl"]),
                number(at["oracle"]),
                _overlap(at, both, r["base"]["tokens"]),
                f"{at['helping']:.3f}",
            )
        )
    for theirs in published()[label] if rows and field != "tuned" else ():
        c = theirs.cells
        rows.append(
            (
                f"paper {theirs.arm['state']} {theirs.arm['metric'].upper()}, FAISS mask, FAISS "
                "score",
                "1",
                number(_or_none(c["ppl"])),
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


def recompute_table(records: Records, scale: Scale) -> Table:
    """Table 3 and its missing arm, and the paper's rows."""
    label = "tab:knn_recompute"
    arms = [
        (f"{r.arm.lm}: {setting(r.arm)}", r.arm)
        for r in recompute.recipe(scale).rows
        if isinstance(r, Evaluate)
    ]
    table = arms_table(records, arms)
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


def arms_table(records: Records, arms: Sequence[tuple[str, Arm]]) -> Table:
    """Any arms at both τ, with recall."""
    rows = []
    for name, arm in arms:
        found = records.get(arm.name)
        if found is None:
            continue
        r = found["results"]
        recall = "" if r["recall"] is None else f"{r['recall']:.2f}"
        cells: list[str] = []
        for field in FIELDS:
            at = r[field]
            cells += [number(at["ppl"]), changes(r, at["ppl"])[0]]
        own = r["tuned"]
        rows.append(
            (
                name,
                recall,
                *cells,
                changes(r, own["ppl"])[1],
                f"{own['lambda']:.3f}",
                f"{own['temperature']:.3g}",
                f"{r['coverage']:.3f}",
                number(own["oracle"]),
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


def sizes_table(records: Records, scale: Scale) -> Table:
    """Recall of the mask at each size: smaller stores have fewer lists of which as many are
    probed."""
    arms = [
        (f"{fraction:.0%} of the store", replace(baselines.paper_arm(scale), fraction=fraction))
        for fraction in scale.fractions
    ]
    return arms_table(records, arms)


def temperatures_table(records: Records, scale: Scale) -> Table:
    """Where the best τ lies for each mask and score, here and in the paper's code."""
    theirs = next(row.cells for row in published()["text"] if "faiss_faiss" in row.cells)
    rows = []
    for fraction in (scale.small, 1.0):
        for arm in recompute.four(replace(baselines.paper_arm(scale), fraction=fraction)):
            found = records.get(Temperatures(arm).name)
            if found is None:
                continue
            points = found["results"]["points"]
            best, one = (
                min(points, key=of)
                for of in (lambda p: p["valid_ppl"], lambda p: abs(p["temperature"] - 1))
            )
            paper = theirs.get(f"{arm.mask}_{arm.score}") if fraction == 1 else None
            rows.append(
                (
                    f"{fraction:.0%} of the store, {setting(arm)}",
                    f"{best['temperature']:.3g}",
                    f"{best['units']:.2f}",
                    f"{one['units']:.3f}",
                    number(one["ppl"]),
                    number(best["ppl"]),
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


def changes(r: Any, ppl: float | None) -> tuple[str, str]:
    """Of perplexity per word, against the LM and against the calibrated LM."""
    if ppl is None:
        return "", ""
    base = r["base"]
    pieces = base["tokens"] / base["words"]
    return tuple(percent((ppl / base[of]) ** pieces - 1) for of in ("ppl", "calibrated_ppl"))  # type: ignore[return-value]


def counts_table(records: Records, rows: Sequence[Counts], whole: Sequence[Unmasked]) -> Table:
    """Perplexity against k, and with all rows."""
    cells = []
    for row in rows:
        found = records.get(row.name)
        if found is None:
            continue
        for point in found["results"]["points"]:
            cells.append(
                (
                    f"{setting(row.arm)}, k = {point['k']:,}",
                    f"{point['coverage']:.3f}",
                    number(point["tau_1"]["ppl"]),
                    number(point["tuned"]["ppl"]),
                    f"{point['tuned']['temperature']:.3g}",
                    f"{point['tuned']['lambda']:.3f}",
                )
            )
    for every in whole:
        found = records.get(every.name)
        if found is not None:
            tuned = found["results"]["tuned"]
            cells.append(
                (
                    f"{every.of}: {every.state}, {every.metric.upper()}, all "
                    f"{found['results']['rows']:,} rows",
                    f"{tuned['coverage']:.3f}",
                    "",
                    number(tuned["ppl"]),
                    f"{tuned['temperature']:.3g}",
                    f"{tuned['lambda']:.3f}",
                )
            )
    return make_table(
        ("row", "coverage", "interp. at τ = 1", "interp. tuned", "τ", "λ"), tuple(cells)
    )


def norm_arms(scale: Scale) -> list[tuple[str, Arm]]:
    """The five states, for every seed."""
    names = {
        "att": "att",
        "att-raw": "att before its LayerNorm",
        "att-earlier": "att of the block before",
        "ffn": "ffn",
        "ffn-normed": "ffn after a LayerNorm",
    }
    rows = audit.norm(scale).rows
    return [
        (f"{r.arm.lm}: {names[r.arm.state]}, {setting(r.arm)}", r.arm)
        for r in rows
        if isinstance(r, Evaluate)
    ]


def units_table(records: Records, scale: Scale) -> Table:
    """F2 and F3: the same rows with λ of the reported text, and per token and per word."""
    rows = []
    for lm in scale.seeds:
        arm = baselines.paper_arm(scale, lm)
        found = records.get(arm.name)
        if found is None:
            continue
        r = found["results"]
        at, base = r["tau_1"], r["base"]
        rows.append(
            (
                f"{lm}: {setting(arm)}, τ = 1",
                number(at["ppl"]),
                number(at["ppl_of_test_lambda"]),
                percent(at["ppl"] / base["ppl"] - 1),
                number(base["word_ppl"]),
                number(at["word_ppl"]),
                percent(at["word_ppl"] / base["word_ppl"] - 1),
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
    mine, other = (_bits(a["helped"], tokens) for a in (at, reference["results"]["shared"]))
    return f"{float(np.mean(mine == other)):.3f}"


def _bits(text: str, count: int) -> Any:
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count)


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
