"""How a report was made, from the provenance of its records: time, machine, versions, and what is
not here yet."""

from typing import NamedTuple

from knnlm.experiments.provenance import Provenance
from knnlm.report.document import Block, Table
from knnlm_paper.experiments import all_experiments
from knnlm_paper.report.formats import make_table
from knnlm_paper.results import Results


class _Time(NamedTuple):
    """What a recipe took, in seconds: rows that are its own, and LMs that were trained for it."""

    recipe: str
    rows: int
    seconds: float
    lms: int
    training: float


def making(results: Results) -> list[Block]:
    """Where, with what and in which time; what is missing; the command for all of it."""
    made = [r.provenance for r in results.records.values()]
    commits = sorted({m.commit or "an installed package" for m in made})
    versions = sorted({", ".join(f"{k} {v}" for k, v in m.versions.items()) for m in made})
    machines = sorted({_machine(m) for m in made})
    return [
        f"Made on {'; '.join(machines)}. Commits: {', '.join(commits)}. Versions: "
        f"{'; '.join(versions)}.",
        "Minutes by the clock, stores, indexes and searches included. What several recipes share "
        "is counted with the "
        "first that has it.",
        times(results),
        missing(results),
        "Every number is in records/, one JSON for each row, with the command that makes it. All "
        "of them: "
        f"`knnlm reproduce all --scale {results.scale.name}`.",
    ]


def times(results: Results) -> Table:
    """What each recipe took: LMs and rows that no recipe before it has."""
    counted: set[str] = set()
    trained: dict[str, float] = {}
    lines: list[_Time] = []
    for recipe in all_experiments(results.scale):
        new = {
            row: results.provenance(row)
            for row in recipe.conditions
            if row in results and row.name not in counted
        }
        counted |= {row.name for row in recipe.conditions}
        lms: dict[str, float] = {}
        for row, made in new.items():
            lms |= {row.lm.name: made.train_seconds, **made.others_train_seconds}
        lms = {
            lm: seconds
            for lm, seconds in lms.items()
            if results.scale.other(lm) is None and lm not in trained
        }
        trained |= lms
        if new:
            seconds = sum(made.seconds for made in new.values())
            lines.append(_Time(recipe.name, len(new), seconds, len(lms), sum(lms.values())))
    lines.append(
        _Time(
            "all",
            sum(t.rows for t in lines),
            sum(t.seconds for t in lines),
            sum(t.lms for t in lines),
            sum(t.training for t in lines),
        )
    )
    return make_table(
        ("recipe", "rows", "minutes", "LMs trained", "minutes", "in all"),
        tuple(
            (
                t.recipe,
                str(t.rows),
                _minutes(t.seconds),
                str(t.lms or ""),
                _minutes(t.training),
                _minutes(t.seconds + t.training),
            )
            for t in lines
        ),
    )


def missing(results: Results) -> str:
    """Which recipes are not complete."""
    every = {row.name for recipe in all_experiments(results.scale) for row in recipe.conditions}
    counted, lacking = set(results.records), []
    for recipe in all_experiments(results.scale):
        absent = {row.name for row in recipe.conditions} - counted
        counted |= absent
        if absent:
            lacking.append(f"{recipe.name} ({len(absent)})")
    if not lacking:
        return f"All {len(every)} rows of the recipes are here."
    here = f"{len(every & results.records.keys())} of {len(every)} rows are here"
    return f"{here}; missing: {', '.join(lacking)}."


def _machine(made: Provenance) -> str:
    """Where a record was made, as far as it says so."""
    more = [] if made.instructions is None else [made.instructions]
    more += [] if made.threads is None else [f"{made.threads} threads"]
    return ", ".join([made.machine, *more])


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}" if seconds else ""
