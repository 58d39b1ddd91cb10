"""docs/benchmarks.md and its plots, from the records that `make bench` wrote.

    .venv/bin/python benchmarks/page.py [--records docs/results/benchmarks] [--page FILE] [--check]

The records of a quiet run are copied into docs/results/benchmarks by whoever made it; the plots are
drawn beside them. --check ends with 1 where the page is not what the records say, or where it lacks
a plot or has one too many: what is in a plot may differ in the last digits between machines.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.plots import Plot, plots_of

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
page is made from [the records]({records}) by `benchmarks/page.py`. Ratios are medians over
rounds, with the least and the greatest; above 1 ours is faster.

{missing}
"""


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder, in the order of the page."""
    files = {name: folder / f"{name}.json" for name in TITLES}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.is_file()}


def page(records: dict[str, dict[str, Any]], folder: str) -> str:
    """The whole page.

    Args:
        records: By the name of the case.
        folder: Of the records and the plots, as seen from the page.
    """
    parts = [HEAD.format(records=folder, missing=_missing(records))]
    for name, record in records.items():
        title, sentence = TITLES[name]
        parts += [f"## {title}", sentence, _circumstances(record)]
        if record.get("comparisons"):
            parts.append(_comparisons(record["comparisons"]))
        parts += [f"![{plot.caption}]({folder}/{plot.name}.svg)" for plot in plots_of(name, record)]
        parts += [_table(each) for each in record.get("tables", ())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _missing(records: dict[str, dict[str, Any]]) -> str:
    titles = [title for name, (title, _) in TITLES.items() if name not in records]
    return f"Not measured yet: {', '.join(titles).lower()}." if titles else ""


def _circumstances(record: dict[str, Any]) -> str:
    """Which machine, when, at which commit, and what disturbed it, as far as the record says."""
    machine, limits = record["machine"], record["limits"]
    instructions = ", ".join(machine["instructions"]) or "no vector instructions named"
    reached = ", ".join(
        f"{name.split()[0]} {value:,.0f}" for name, value in limits.items() if "GFLOP" in name
    )
    measured = [f"Measured on {machine['processor']}, {machine['threads']} threads"]
    if "date" in record:
        measured.append(f"on {record['date']}")
    if machine["commit"]:
        commit, _, changed = machine["commit"].partition("-")
        measured.append(f"at commit {commit}{' with changes' if changed else ''}")
    sentences = [f"{', '.join(measured)} ({instructions})."]
    sentences.append(f"Square products reach, in GFLOP/s: {reached}.")
    if "products_in" in record:
        sentences.append(f"Many queries are multiplied in {record['products_in'].split('.')[-1]}.")
    if record.get("stolen"):
        sentences.append(f"The host gave {record['stolen']:.0%} of the busy time to others.")
    return " ".join([*sentences, *filter(None, [record.get("note")])])


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
    """Write the page and its plots, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    records = read_records(given.records)
    folder = Path(os.path.relpath(given.records, given.page.parent)).as_posix()
    text = page(records, folder)
    plots = [plot for name, record in records.items() for plot in plots_of(name, record)]
    return (_check if given.check else _write)(given.page, text, given.records, plots)


def _check(file: Path, text: str, folder: Path, plots: list[Plot]) -> int:
    names = {plot.name for plot in plots}
    drawn = {svg.stem for svg in folder.glob("*.svg")}
    return 0 if file.read_text() == text and drawn == names else 1


def _write(file: Path, text: str, folder: Path, plots: list[Plot]) -> int:
    for old in folder.glob("*.svg"):
        old.unlink()
    for plot in plots:
        (folder / f"{plot.name}.svg").write_text(plot.svg())
    file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
