"""docs/benchmarks.md from the records that `make bench` wrote.

    .venv/bin/python benchmarks/page.py [--records docs/results/benchmarks] [--check]

The records of a quiet run are copied into docs/results/benchmarks by whoever made it. --check ends
with 1 where the page is not what the records say.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
RECORDS = ROOT / "docs" / "results" / "benchmarks"
# what each case is, in the order of the page; a record may bring tables of its own ("tables")
TITLES = {
    "exact": (
        "Exact search",
        "States are fp16 on disk; `faiss.knn` has them as fp32 in memory. k is 1,024.",
    ),
    "indexes": ("Indexes", "How many of the true 1,024 neighbors an index returns, and how fast."),
    "generation": ("Generation", "`generate` with a datastore beside the same LM without one."),
    "building": (
        "Building and training",
        "`build` and `train` beside bare loops over the same tokens.",
    ),
    "sweeps": (
        "Sweeps",
        "200 λ × 60 τ × 12 k over 200,000 tokens, beside the search that they reuse.",
    ),
    "growth": ("Growth", "Time and memory against the number of entries, 256 numbers a state."),
}
HEAD = """# Benchmarks

`make bench` times ours and its rivals in turn, in one process, and writes one record a case; this
page is made from [the records](results/benchmarks) by `benchmarks/page.py`. Ratios are medians over
rounds, with the least and the greatest; above 1 ours is faster. The machine was a virtual one on a
busy host, which took about a fifth of its time away while these records were made: times are rough,
ratios less so. The record of exact search does not say in which precision it multiplied. Indexes,
building and growth have no record yet.
"""


def page(folder: Path) -> str:
    """The whole page."""
    records = {
        name: json.loads(file.read_text())
        for name in TITLES
        if (file := folder / f"{name}.json").is_file()
    }
    parts = [HEAD]
    for name, record in records.items():
        title, sentence = TITLES[name]
        parts += [f"## {title}", f"{sentence} {_machine(record)}"]
        if record.get("comparisons"):
            parts.append(_comparisons(record["comparisons"]))
        parts += [_table(each) for each in record.get("tables", ())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _machine(record: dict[str, Any]) -> str:
    machine, limits = record["machine"], record["limits"]
    instructions = ", ".join(machine["instructions"]) or "no vector instructions named"
    reached = ", ".join(
        f"{name.split()[0]} {value:,.0f}" for name, value in limits.items() if "GFLOP" in name
    )
    return (
        f"{machine['processor']}, {machine['threads']} threads ({instructions}); square products "
        f"reach, in GFLOP/s: {reached}."
    )


def _comparisons(rows: list[dict[str, Any]]) -> str:
    lines = ["| | ours | rival | ratio | aim |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        low, middle, high = row["ratio"]
        aim = (
            ""
            if row["aim"] is None
            else f"{row['aim']:g}{'' if middle >= row['aim'] else ', missed'}"
        )
        lines.append(
            f"| {row['subject']} | {row['ours'][1]:,.4g} {row['unit']} | {row['theirs'][1]:,.4g} "
            f"({row['rival']}) | {middle:.2f} ({low:.2f} to {high:.2f}) | {aim} |"
        )
    return "\n".join(lines)


def _table(table: dict[str, Any]) -> str:
    """A table that a case wrote: {"title", "head": […], "rows": [[…], …]}."""
    lines = [
        table["title"],
        "",
        "| " + " | ".join(table["head"]) + " |",
        "|---" + "|---:" * (len(table["head"]) - 1) + "|",
    ]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in table["rows"]]
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    text = page(given.records)
    if given.check:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
