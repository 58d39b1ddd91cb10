"""Tables of base LMs: what neighbours do for each, and every LM that a row used."""

from typing import Any

from knnlm.report.document import Table
from knnlm_paper.expected import published
from knnlm_paper.experiments import models
from knnlm_paper.findings import Records
from knnlm_paper.report.formats import make_table, number, percent
from knnlm_paper.report.tables import changes, setting
from knnlm_paper.rows import Evaluate
from knnlm_paper.scales import Scale


def models_table(records: Records, scale: Scale) -> Table:
    """Appendix A: ours and the paper's LMs."""
    rows = []
    for row in models.recipe(scale).rows:
        assert isinstance(row, Evaluate)
        found = records.get(row.name)
        if found is None:
            continue
        r = found["results"]
        rows.append(
            (
                f"{row.arm.lm}: {setting(row.arm)}",
                f"{r['lm']['parameters'] / 1e6:.2f}M",
                number(r["base"]["ppl"]),
                number(r["tuned"]["ppl"]),
                number(r["base"]["ppl"] - r["tuned"]["ppl"]),
                *changes(r, r["tuned"]["ppl"]),
            )
        )
    for theirs in published()["tab:knn_other_models"]:
        assert theirs.base is not None
        rows.append(
            (
                f"paper: {theirs.name}",
                "",
                number(theirs.base),
                number(theirs.cells["interp"]),
                number(theirs.cells["gain"]),
                percent(theirs.change),
                "",
            )
        )
    return make_table(
        ("row", "parameters", "base LM", "kNN-LM", "gain", "vs base", "vs calibrated"), tuple(rows)
    )


def lms_table(records: Records) -> Table:
    """Every base LM and checkpoint that a row used."""
    lms: dict[tuple[str, int, bool], dict[str, Any]] = {}
    for record in records.values():
        r = record["results"]
        for other in r.get("others", []):
            lms[other["name"], other["step"], other["kept"] is None] = other
        if record["kind"] == "evaluate":
            arm, base, lm = record["what"]["arm"], r["base"], r["lm"]
            lms[arm["lm"], lm.get("step", 0), arm["step"] is None] = {
                **base,
                **lm,
                "name": arm["lm"],
            }
    rows = []
    for (name, _, best), lm in sorted(lms.items()):
        trained = ("", "", "")
        if "step" in lm:
            update = f"{lm['step']:,} of {lm['steps']:,}" + (
                " (best on validation)" if best else ""
            )
            trained = (
                update,
                "" if lm["train_ppl"] is None else number(lm["train_ppl"], 1),
                number(lm["valid_ppl"], 1),
            )
        rows.append(
            (
                name,
                f"{lm['parameters'] / 1e6:.2f}M",
                *trained,
                number(lm["ppl"], 1),
                number(lm["calibrated_ppl"], 1),
                f"{lm['calibrated_temperature']:.2f}",
                f"{lm['calibrated_share']:.3f}",
            )
        )
    columns = (
        "LM",
        "parameters",
        "update",
        "training PPL",
        "validation PPL",
        "test PPL",
        "calibrated",
        "its T",
        "its unigram share",
    )
    return make_table(columns, tuple(rows))
