"""Ours beside its rivals, in turn, in one process; `make bench` runs it.

    .venv/bin/python benchmarks/run.py [CASE …] [--quick] [--store NAME STORE QUERIES]… [--out DIR]

Each case writes DIR/CASE.json and is not measured again while that file is there, so an interrupted
run resumes; `--again` measures again, but for the points of indexes (DIR/work/indexes) and those of
growth that were measured at this commit (DIR/work/growth/*.json): delete them first. --large adds
ten million entries to growth. With --store, a datastore of a real model is measured too: STORE and
QUERIES are datastores of two texts under one model, QUERIES built with --logprobs. --quick takes a
few minutes and ends with 1 where ours fell far behind.
"""

import argparse
import json
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from bench.cases import CASES
from bench.machine import StolenTime, limits, machine
from bench.setting import Setting, StorePair

FAR_BEHIND = 0.1
"""--quick fails below this ratio: its sizes are small, and other work disturbs it."""


def main() -> int:
    """Measure what is not measured yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--store", nargs=3, action="append", default=[])
    parser.add_argument("--note", help="a sentence about this run, for the page")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    given = parser.parse_args()
    if unknown := [name for name in given.case if name not in CASES]:
        parser.error(f"no case {unknown[0]}: choose of {', '.join(CASES)}")
    work = given.out / "work"
    work.mkdir(parents=True, exist_ok=True)
    stores = tuple(StorePair(n, Path(s), Path(q)) for n, s, q in given.store)
    setting = Setting(quick=given.quick, work=work, stores=stores, large=given.large)
    records = {}
    for name in given.case or CASES:
        file = given.out / f"{name}{'-quick' if given.quick else ''}.json"
        if given.again or not file.is_file():
            began, stolen = time.monotonic(), StolenTime()
            record = {
                "case": name,
                "machine": machine(),
                "limits": {n: float(f"{v:.4g}") for n, v in limits(given.quick).items()},
                **CASES[name].measure(setting),
                "seconds": round(time.monotonic() - began),
                "date": f"{date.today()}",
                "stolen": stolen.share(),
                **({"note": given.note} if given.note else {}),
            }
            unfinished = file.with_suffix(".tmp")
            unfinished.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
            unfinished.rename(file)
        records[name] = json.loads(file.read_text())
        show(records[name])
    return 1 if given.quick and fell_behind(records) else 0


def show(record: dict[str, Any]) -> None:
    """A line for each comparison."""
    print(f"{record['case']} ({record['seconds']} s)")
    for row in record.get("comparisons", ()):
        low, middle, high = row["ratio"]
        aim = "" if row["aim"] is None else f", aim {row['aim']:g}"
        print(
            f"  {row['subject']}: {row['ours'][1]:g} and {row['theirs'][1]:g} {row['unit']} "
            f"({row['rival']}), ratio {middle:g} ({low:g} to {high:g}{aim})"
        )
    for table in record.get("tables", ()):
        print(f"  {table['title']}")
        for cells in table["rows"]:
            print("    " + "; ".join(str(cell) for cell in cells))


def fell_behind(records: dict[str, dict[str, Any]]) -> bool:
    """Say which comparisons were far behind in every round."""
    rows = [row for record in records.values() for row in record.get("comparisons", ())]
    far = [row for row in rows if row["ratio"][2] < FAR_BEHIND]
    for row in far:
        print(f"far behind: {row['subject']}, ratio {row['ratio'][1]:g}", file=sys.stderr)
    return bool(far)


if __name__ == "__main__":
    sys.exit(main())
