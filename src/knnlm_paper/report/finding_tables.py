"""Tables of findings: claims with their verdicts, and conclusions at the three temperatures."""

from collections.abc import Iterable

from knnlm.report.document import Table
from knnlm_paper.claims import FIELDS
from knnlm_paper.findings import Finding
from knnlm_paper.report.formats import effect, make_table
from knnlm_paper.report.words import numbers, outcome, reading


def findings_table(found: Iterable[Finding]) -> Table:
    """Claims with verdicts, effects and the paper's."""
    rows = []
    for f in found:
        unit = f.claim.unit
        seeds = (
            ", ".join(effect(s, unit) for s in f.seeds)
            if len(f.seeds) > 1
            else "one LM"
            if f.seeds
            else ""
        )
        measured = f.verdict != "not measured"
        rows.append(
            (
                f.claim.name,
                f"**{outcome(f)}**",
                effect(f.effect, unit) if measured else "",
                f"{effect(f.low, unit)} to {effect(f.high, unit)}" if measured else "",
                seeds,
                "" if f.claim.paper is None else effect(f.claim.paper, unit),
                f.claim.where,
            )
        )
    return make_table(
        ("claim", "verdict", "effect", "95 %", "each seed", "paper", "where"), tuple(rows)
    )


def survival_table(found: Iterable[Finding]) -> Table:
    """Each conclusion at one τ, as the paper drew it, and with every arm at its own τ."""
    by_name = {
        f.claim.name: f for f in found if f.claim.sense == "more" and f.verdict != "not measured"
    }
    rows = []
    for name in by_name:
        conclusion, mark, _ = name.partition(f" ({FIELDS['one_tau']})")
        each = [by_name.get(f"{conclusion} ({words})") for words in FIELDS.values()]
        if mark and each[2] is not None:
            said = reading(by_name[name].verdict, each[2].verdict)
            rows.append((conclusion, *("" if f is None else numbers(f) for f in each), said))
    return make_table(("conclusion", *FIELDS.values(), "reading"), tuple(rows))
