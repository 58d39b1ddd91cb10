"""Records → tables, ours beside the paper's. A row that was not measured is left out. Knows nothing of Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from knnlm.paper.claims import FIELDS
from knnlm.paper.expected import printed, published
from knnlm.paper.findings import Finding, Records
from knnlm.paper.present.content import Table, interval, number, percent
from knnlm.paper.present.words import numbers, reading
from knnlm.paper.recipes import audit, baselines, models, recompute
from knnlm.paper.rows import Arm, Counts, Evaluate
from knnlm.paper.scales import Scale

PAIRS = {"faiss": "FAISS", "exact": "real", "real": "real", "half": "real in fp16", "flipped": "flipped"}


def setting(arm: Arm) -> str:
    """Mask and score in the paper's words."""
    return f"{PAIRS[arm.mask]} mask, {PAIRS[arm.score]} score"


def findings_table(found: Iterable[Finding]) -> Table:
    """Claims with verdicts, effects and the paper's."""
    rows = []
    for f in found:
        seeds = ", ".join(percent(s) for s in f.seeds) if len(f.seeds) > 1 else ""
        measured = f.verdict != "not measured"
        rows.append((
            f.claim.name, f"**{f.verdict}**", percent(f.effect) if measured else "",
            interval(f.low, f.high) if measured else "", seeds,
            "" if f.claim.paper is None else percent(f.claim.paper), f.claim.where,
        ))  # fmt: skip
    return Table(("claim", "verdict", "effect", "95 %", "each seed", "paper", "where"), tuple(rows))


def survival_table(found: Iterable[Finding]) -> Table:
    """Each conclusion at τ = 1, as the paper drew it, and with every arm at its own τ."""
    by_name = {f.claim.name: f for f in found}
    rows = []
    for name, fixed in by_name.items():
        conclusion, mark, _ = name.partition(f" ({FIELDS['tau_1']})")
        tuned = by_name.get(f"{conclusion} ({FIELDS['tuned']})")
        if mark and tuned is not None and "not measured" not in (fixed.verdict, tuned.verdict):
            rows.append((conclusion, numbers(fixed), numbers(tuned), reading(fixed.verdict, tuned.verdict)))
    return Table(("conclusion", FIELDS["tau_1"], FIELDS["tuned"], "reading"), tuple(rows))


def baselines_table(records: Records, scale: Scale) -> Table:
    """Table 1: every state and metric at both τ."""
    label = "tab:knn_baselines"
    reference = baselines.paper_arm(scale)
    rows = []
    for row in baselines.recipe(scale).rows:
        assert isinstance(row, Evaluate)
        found = records.get(row.name)
        if found is None:
            continue
        arm = row.arm
        theirs = printed(label, state=arm.state, metric=arm.metric, mask=arm.mask, score=arm.score)
        for field, tau in (("tau_1", "1"), ("tuned", None)):
            r, base = found["results"], found["results"]["base"]
            at = r[field]
            both = records.get(replace(reference, lm=arm.lm).name)
            rows.append((
                f"{arm.lm} {arm.state} {arm.metric.upper()}, {setting(arm)}", tau or f"{at['temperature']:.3g}",
                number(at["component_ppl"]), f"{at['lambda']:.3f}", number(at["ppl"]),
                percent(at["ppl"] / base["ppl"] - 1), percent(at["ppl"] / base["calibrated_ppl"] - 1),
                number(at["oracle"]), _overlap(at, both, base["tokens"]), f"{at['helping']:.3f}",
                percent(theirs.change) if theirs is not None and field == "tau_1" else "",
            ))  # fmt: skip
    columns = ("row", "τ", "PPL", "λ", "interp.", "vs base", "vs calibrated", "oracle", "overlap", "helping",
               "paper vs base")  # fmt: skip
    return Table(columns, tuple(rows), _printed_note(label))


def recompute_table(records: Records, scale: Scale) -> Table:
    """Table 3 and its missing arm."""
    label = "tab:knn_recompute"
    rows = []
    for row in recompute.recipe(scale).rows:
        assert isinstance(row, Evaluate)
        found, arm = records.get(row.name), row.arm
        if found is None:
            continue
        r = found["results"]
        theirs = printed(label, state=arm.state, metric=arm.metric, mask=arm.mask, score=arm.score)
        rows.append((
            f"{arm.lm}: {setting(arm)}", *_both(r), f"{r['tuned']['temperature']:.3g}", number(r["tuned"]["oracle"]),
            "" if theirs is None else percent(theirs.change),
        ))  # fmt: skip
    columns = ("row", "λ at τ = 1", "interp.", "vs base", "λ tuned", "interp.", "vs base", "τ", "oracle",
               "paper vs base (τ = 1)")  # fmt: skip
    return Table(columns, tuple(rows), _printed_note(label))


def arms_table(records: Records, arms: Sequence[tuple[str, Arm]]) -> Table:
    """Any arms at both τ, with recall."""
    rows = []
    for name, arm in arms:
        found = records.get(arm.name)
        if found is None:
            continue
        r = found["results"]
        recall = "" if r["recall"] is None else f"{r['recall']:.2f}"
        rows.append((name, recall, *_both(r), f"{r['tuned']['temperature']:.3g}", f"{r['coverage']:.3f}"))
    columns = ("row", "recall", "λ at τ = 1", "interp.", "vs base", "λ tuned", "interp.", "vs base", "τ", "coverage")
    return Table(columns, tuple(rows))


def models_table(records: Records, scale: Scale) -> Table:
    """Appendix A: ours and the paper's LMs."""
    rows = []
    for row in models.recipe(scale).rows:
        assert isinstance(row, Evaluate)
        found = records.get(row.name)
        if found is None:
            continue
        r = found["results"]
        rows.append((
            f"{row.arm.lm}: {setting(row.arm)}", f"{r['lm']['parameters'] / 1e6:.2f}M", number(r["base"]["ppl"]),
            number(r["tuned"]["ppl"]), number(r["base"]["ppl"] - r["tuned"]["ppl"]),
            percent(r["tuned"]["ppl"] / r["base"]["ppl"] - 1),
        ))  # fmt: skip
    for theirs in published()["tab:knn_other_models"]:
        assert theirs.base is not None
        rows.append((f"paper: {theirs.name}", "", number(theirs.base), number(theirs.cells["interp"]),
                     number(theirs.cells["gain"]), percent(theirs.change)))  # fmt: skip
    return Table(("row", "parameters", "base LM", "kNN-LM", "gain", "vs base"), tuple(rows))


def counts_table(records: Records, rows: Sequence[Counts]) -> Table:
    """Perplexity against k."""
    cells = []
    for row in rows:
        found = records.get(row.name)
        if found is None:
            continue
        for point in found["results"]["points"]:
            cells.append((
                f"{setting(row.arm)}, k = {point['k']:,}", f"{point['coverage']:.3f}", number(point["tau_1"]["ppl"]),
                number(point["tuned"]["ppl"]), f"{point['tuned']['temperature']:.3g}",
                f"{point['tuned']['lambda']:.3f}",
            ))  # fmt: skip
    return Table(("row", "coverage", "interp. at τ = 1", "interp. tuned", "τ", "λ"), tuple(cells))


def norm_arms(scale: Scale) -> list[tuple[str, Arm]]:
    """The five states, for every seed."""
    names = {"att": "att", "att-raw": "att before its LayerNorm", "att-earlier": "att of the block before",
             "ffn": "ffn", "ffn-normed": "ffn after a LayerNorm"}  # fmt: skip
    rows = audit.norm(scale).rows
    return [(f"{r.arm.lm}: {names[r.arm.state]}, {setting(r.arm)}", r.arm) for r in rows if isinstance(r, Evaluate)]


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
        rows.append((
            f"{lm}: {setting(arm)}, τ = 1", number(at["ppl"]), number(at["ppl_of_test_lambda"]),
            percent(at["ppl"] / base["ppl"] - 1), number(base["word_ppl"]), number(at["word_ppl"]),
            percent(at["word_ppl"] / base["word_ppl"] - 1),
        ))  # fmt: skip
    columns = ("row", "λ of validation", "λ of the test text itself", "vs base per token", "base per word",
               "interp. per word", "vs base per word")  # fmt: skip
    return Table(columns, tuple(rows))


def lms_table(records: Records) -> Table:
    """Every base LM and checkpoint that a row used."""
    seen: dict[tuple[str, int], tuple[str, ...]] = {}
    for record in records.values():
        if record["kind"] != "evaluate":
            continue
        arm, lm, base = record["what"]["arm"], record["results"]["lm"], record["results"]["base"]
        best = "" if arm["step"] is not None else " (best on validation)"
        trained = ("", "", "")
        if "step" in lm:
            trained = (f"{lm['step']:,} of {lm['steps']:,}{best}", number(lm["train_ppl"], 1),
                       number(lm["valid_ppl"], 1))  # fmt: skip
        seen[arm["lm"], lm.get("step", 0)] = (
            arm["lm"], f"{lm['parameters'] / 1e6:.2f}M", *trained, number(base["ppl"], 1),
            number(base["calibrated_ppl"], 1), f"{base['calibrated_temperature']:.2f}",
            f"{base['calibrated_share']:.3f}",
        )  # fmt: skip
    columns = ("LM", "parameters", "update", "training PPL", "validation PPL", "test PPL", "calibrated", "its T",
               "its unigram share")  # fmt: skip
    return Table(columns, tuple(seen[key] for key in sorted(seen)))


def _both(r: Any) -> tuple[str, ...]:
    """λ, perplexity and change at τ = 1, then at the tuned τ."""
    cells: list[str] = []
    for field in ("tau_1", "tuned"):
        at = r[field]
        cells += [f"{at['lambda']:.3f}", number(at["ppl"]), percent(at["ppl"] / r["base"]["ppl"] - 1)]
    return tuple(cells)


def _overlap(at: Any, reference: Any, tokens: int) -> str:
    """Share of tokens on which this row and the paper's row (att, L2, τ = 1) agree whether kNN or the LM is better."""
    if reference is None:
        return ""
    mine, other = (_bits(a["helped"], tokens) for a in (at, reference["results"]["tau_1"]))
    return f"{float(np.mean(mine == other)):.3f}"


def _bits(text: str, count: int) -> Any:
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count)


def _printed_note(label: str) -> str:
    rows = published()[label]
    cells = "; ".join(f"{r.name} {r.arm.get('state', '')}: {r.cells['interp']:g}" for r in rows)
    return f"The paper's ({rows[0].where}; base LM {rows[0].base:g}): {cells}."
