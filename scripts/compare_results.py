"""Looks for every number of an old RESULTS.md in today's CSV files and in what the paper printed.

    python scripts/compare_results.py [842b195] [docs/results/laptop]

The first argument is a file, or a git revision that has one. To be found, numbers must stand
together, rounded as they were printed:

    line     those of a table row in one condition (its lines of a CSV file) or one row of the paper
    effect   those of a claim, or of `a (b to c)`, in one effect with its interval, in that order
    paper    those of a column about the paper among all that it printed
    alone    others of sentences, and of rows that are nothing but effects, anywhere

Names of rows and sections, and levels of intervals, are not counted. Chance: how many are found
where each in turn, but no other number, is moved by three units in its last place. Exits with 1
where something is missing that was not dropped on purpose."""

import csv
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from printed_numbers import Number, Numbers, Unit, units_in

from knnlm.errors import KnnlmError
from knnlm_paper.expected import published

REPORT = "docs/results/laptop/RESULTS.md"
FOUND = ("line", "effect", "paper", "alone")
MOST_PARTS = 60
"""Of a condition with more parts, each is a line for itself."""
ENOUGH = 5 / 6
"""The share of a row's numbers that its line must have."""
GONE = {"How it was made": "minutes and machines; every record has its own"}
"""Sections of which nothing is looked for."""
_PRODUCT = "entries × width of the datastore; both are there"
_DIFFERENCE = "differences of two perplexities; both are there"
_SETTING = "settings, explained in sentences"
DROPPED = (
    ("text", "", r"\d (checks|hold|do not hold|are undecided)|\(beyond\)", "counts of verdicts"),
    ("row", "Base LMs of other sizes", r"\| gain \|", _DIFFERENCE),
    ("row", "Table 2", r"\n\| neighbours \(", _PRODUCT),
    ("text", "Without looking anything up", "78 million", _PRODUCT),
    ("text", "The answer in short", r"8,192 clusters|on top of 4 LMs", _SETTING),
    (
        "text",
        "",
        r"begin with 0.92|end at 3|probed|margin|differ from|10 occurr|100 % is",
        _SETTING,
    ),
)
"""What else was dropped on purpose, and why: the kind of a unit, patterns of its section and text.
Of a row, only what its line does not have."""


class Today:
    """The numbers of a results folder, and those that the paper printed."""

    def __init__(self, folder: Path) -> None:
        conditions: dict[str, list[list[float]]] = {}
        effects: list[list[float]] = []
        paper: list[float] = []
        for file in sorted((folder / "csv").glob("*.csv")):
            parts: dict[str, list[list[float]]] = defaultdict(list)
            for place, row in enumerate(csv.DictReader(file.read_text().splitlines())):
                numbers = {name: floats for name, cell in row.items() if (floats := _floats(cell))}
                parts[row.get("condition", f"{file} {place}")].append([*chain(*numbers.values())])
                effects += _effects(numbers)
                paper += numbers.get("effect_in_the_paper", [])
            conditions |= parts
        texts = (folder / "scale.json").read_text()
        lines = [[float(digits) for digits in re.findall(r": (\d+)", texts)]]
        for each in conditions.values():
            lines += each if len(each) > MOST_PARTS else [[*chain(*each)]]
        for row_of_paper in chain(*published().values()):
            cells, base = row_of_paper.cells, row_of_paper.base
            more = [1 - cells["lambda"]] if "lambda" in cells else []
            more += [base, row_of_paper.change] if base and "interp" in cells else []
            lines.append([*cells.values(), *more])
            paper += lines[-1]
        pairs = sorted({(value, place) for place, line in enumerate(lines) for value in line})
        self._values, self._places = zip(*pairs, strict=True)
        self._effects, self._paper = sorted(effects), sorted(paper)
        self._first = [effect[0] for effect in self._effects]

    def places(self, number: Number) -> set[int]:
        """The lines that have a number."""
        return set(self._places[number.among(self._values)])

    def in_line(self, numbers: Numbers) -> list[bool]:
        """Which of them the line has that has most; none where those are too few."""
        places = [self.places(number) for number in numbers]
        best, most = next(iter(Counter(chain(*places)).most_common(1)), (-1, 0))
        return [most >= ENOUGH * len(numbers) and best in each for each in places]

    def in_effect(self, numbers: Numbers) -> bool:
        """Whether an effect begins with them."""
        return any(
            len(numbers) <= len(effect) and all(map(Number.is_about, numbers, effect))
            for effect in self._effects[numbers[0].among(self._first)]
        )

    def in_paper(self, number: Number) -> bool:
        """Whether the paper printed it."""
        return bool(self._paper[number.among(self._paper)])


def _floats(cell: str) -> list[float]:
    try:
        return [float(word) for word in cell.split()]
    except ValueError:
        return []


def _effects(row: Mapping[str, list[float]]) -> Iterator[list[float]]:
    """Every value of a line that has an interval, with the seeds and the paper's of a finding."""
    for name in row:
        low, high = ("low", "high") if name == "share" else (f"{name}_low", f"{name}_high")
        if low in row and high in row:
            effect = [*row[name], *row[low], *row[high]]
            seeds, paper = (row.get(f"{name}_{of}", []) for of in ("of_each_seed", "in_the_paper"))
            yield [*effect, *(seeds if len(seeds) > 1 else []), *paper]
            yield [*effect, *paper]


def ways_found(unit: Unit, today: Today) -> list[str]:
    """How each number of a unit is found; "missing" where it is not."""
    effects = [today.in_effect(group) for group in unit.groups if len(group) > 1]
    in_line = [False] * len(unit.numbers)
    if unit.kind == "row" and len(effects) < len(unit.groups):
        in_line = today.in_line(unit.numbers)
    alone = unit.kind == "text" or (bool(effects) and all(effects) and not any(in_line))
    ways: list[str] = []
    for group in unit.groups:
        if unit.kind == "claim" or len(group) > 1:
            way = "effect" if group and today.in_effect(group) else "missing"
        elif unit.kind == "paper":
            way = "paper" if today.in_paper(group[0]) else "missing"
        else:
            way = "alone" if alone and today.places(group[0]) else "missing"
        ways += [way] * len(group)
    return ["line" if line else way for line, way in zip(in_line, ways, strict=True)]


def why_dropped(unit: Unit, ways: Sequence[str]) -> str | None:
    """Why numbers that are not found, or only alone, are not there, if that is on purpose."""
    if unit.section in GONE:
        return GONE[unit.section]
    for kind, section, text, reason in DROPPED:
        here = kind == unit.kind and re.search(section, unit.section)
        if here and re.search(text, unit.text) and (kind == "text" or "line" in ways):
            return reason
    return None


def compare(markdown: str, today: Today) -> bool:
    """Print what was found, section by section; whether nothing is missing."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    chance: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    missing: list[str] = []
    for unit in units_in(markdown):
        ways = ways_found(unit, today)
        reason = why_dropped(unit, ways)
        for place, (number, way) in enumerate(zip(unit.numbers, ways, strict=True)):
            if reason and (unit.section in GONE or way in ("alone", "missing")):
                counts[unit.section]["dropped"] += 1
                reasons[reason] += 1
                continue
            counts[unit.section][way] += 1
            if way == "missing":
                missing.append(f"{number.text} in {unit.section}: {unit.text.splitlines()[-1]}")
            elif ways_found(unit.moved(place), today)[place] != "missing":
                chance[unit.section][way] += 1
    total, by_chance = (sum(each.values(), Counter[str]()) for each in (counts, chance))
    columns = (*FOUND, "dropped", "missing")
    print("numbers", *columns, "chance", "section", sep="\t")
    for name, each in [*counts.items(), ("all", total)]:
        lucky = (by_chance if name == "all" else chance[name]).total()
        print(each.total(), *(each[column] for column in columns), lucky, name, sep="\t")
    print("\nChance:", ", ".join(f"{by_chance[way]} of {total[way]} {way}" for way in FOUND))
    print("Dropped on purpose:", *(f"{n}\t{reason}" for reason, n in reasons.items()), sep="\n")
    print("Missing:", *(missing or ["nothing"]), sep="\n")
    return not missing


def main(old: str = "842b195", folder: str = "docs/results/laptop") -> bool:
    """Compare a file, or the report of a revision, with a results folder.

    Raises:
        KnnlmError: There is no such file, revision or folder.
    """
    if not (Path(folder) / "scale.json").is_file():
        raise KnnlmError(f"{folder} holds no results: name a folder that 'knnlm reproduce' wrote")
    if not list((Path(folder) / "csv").glob("*.csv")):
        raise KnnlmError(f"{folder} has no CSV files: run 'knnlm reproduce --report' first")
    return compare(_report(old), Today(Path(folder)))


def _report(old: str) -> str:
    """The text of a file, or of the report of a revision."""
    if Path(old).is_file():
        return Path(old).read_text()
    show = ["git", "show", f"{old}:{REPORT}"]
    done = subprocess.run(show, capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip() or "git failed").splitlines()[0]
        raise KnnlmError(
            f"{old} is neither a file nor a revision that has {REPORT} ({why}): name one that is"
        )
    return done.stdout


if __name__ == "__main__":
    try:
        sys.exit(not main(*sys.argv[1:]))
    except KnnlmError as error:
        sys.exit(str(error))
