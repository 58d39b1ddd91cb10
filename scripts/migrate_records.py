"""Migrates the results of a reproduction from format 1 (rows/) to format 2 (records/).

    python scripts/migrate_records.py docs/results/laptop

Nothing is measured again: names change, numbers do not. Every record is read back as its kind of
condition reads it, and every value of the old record is looked for in the new one; what a format 1
record did not say (which instructions a CPU had, say) is null. rows/ stays as it is and can be
deleted afterwards."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from knnlm.errors import KnnlmError
from knnlm.experiments.base_lms import AboutLM
from knnlm.experiments.provenance import Provenance
from knnlm.experiments.records import CLAIM, RECORDS, Record, read_record, write_record
from knnlm.files import read_json, write_json
from knnlm.typed_json import from_json, to_json
from knnlm_paper.conditions import KINDS

Json = dict[str, Any]
POINTS = {"shared": "one_tau", "tuned": "own_tau"}
COMPONENTS = {"embeddings": "head", "softmaxes": "mixture-of-softmaxes", "network": "mlp"}
SEARCHES = {"faiss": "index", "exact": "exact"}
SCORES = {"faiss": "index", "real": "exact"}
KIND_NAMES = {
    "evaluate": "knn",
    "temperatures": "temperature-curve",
    "counts": "neighbor-counts",
    "location": "place-in-text",
    "words": "word-types",
    "learned": "learned",
    "combined": "combined",
    "listed": "token-list",
    "reach": "reachability",
    "ensemble": "ensemble",
    "unmasked": "full-datastore",
}


class Checked(NamedTuple):
    """How much was compared."""

    records: int
    numbers: int
    texts: int
    added: int
    """Fields that are null or empty because format 1 did not have them."""


def migrate(folder: Path) -> Checked:
    """Write records/ from rows/.

    Args:
        folder: A results folder of format 1.

    Raises:
        KnnlmError: A value would be lost or changed, or there is nothing to migrate.
    """
    files = sorted((folder / "rows").glob("*.json"))
    if not files:
        raise KnnlmError(f"{folder}/rows holds no records: give a results folder of format 1")
    (folder / RECORDS).mkdir(exist_ok=True)
    total = Checked(0, 0, 0, 0)
    for file in files:
        old = read_json(file, newest_format=1)
        record = migrated(old)
        new = folder / RECORDS / f"{record.condition}.json"
        write_record(new, record)
        if read_record(new, KINDS) != record:
            raise KnnlmError(f"{new} is not read as it was written: report it")
        counts = compared(file, old, read_json(new))
        total = Checked(*(a + b for a, b in zip(total, counts, strict=True)))
    _migrate_claim(folder / CLAIM)
    return total


def migrated(old: Json) -> Record[Any]:
    """The record of format 2."""
    kind = KINDS[KIND_NAMES[old["kind"]]]
    condition = from_json(kind, _settings(old["kind"], old["what"]))
    measurement = from_json(kind.measurement_type, _MEASUREMENTS[old["kind"]](old["results"]))
    provenance = {
        "other_models": [],
        "others_train_seconds": {},
        "instructions": None,
        "threads": None,
        **old["provenance"],
    }
    provenance["other_models"] = [
        {"name": name, "step": step, "fingerprint": fingerprint}
        for name, step, fingerprint in provenance["other_models"]
    ]
    return Record(
        condition.name,
        condition.kind,
        old["scale"],
        to_json(condition),
        old.get("made_with"),
        measurement,
        from_json(Provenance, provenance, "provenance"),
    )


def compared(file: Path, old: Json, new: Json) -> Checked:
    """Look for every value of an old record in the new one.

    Raises:
        KnnlmError: One is not there, or there are more than before.
    """
    counts = [
        _same_values(file, old["results"], new["measurement"], texts=True),
        _same_values(file, old["provenance"], new["provenance"], texts=True),
        _same_values(file, old["what"], new["settings"], texts=False),  # texts have other names
    ]
    if (old["scale"], old.get("made_with")) != (new["scale"], new["made_with"]):
        raise KnnlmError(f"{file}: scale or made_with differs: report it")
    return Checked(1, *(sum(column) for column in zip(*counts, strict=True)))


def _same_values(file: Path, old: Any, new: Any, *, texts: bool) -> tuple[int, int, int]:
    """Numbers and texts of both, and how many null or empty fields were added."""
    before, after = Counter(_leaves(old)), Counter(_leaves(new))
    missing = before - after
    more = after - before
    if not texts:
        missing, more = (
            Counter({leaf: n for leaf, n in c.items() if leaf[0] != "str"}) for c in (missing, more)
        )
    empty = ("NoneType", "None")
    if missing or set(more) - {empty}:
        raise KnnlmError(f"{file}: values differ ({missing or more}): report it")
    numbers = sum(n for (name, _), n in before.items() if name in ("int", "float", "bool"))
    words = sum(n for (name, _), n in before.items() if name == "str") if texts else 0
    return numbers, words, more[empty]


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Type and exact text of every value of a JSON tree."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield type(value).__name__, repr(value)


def _migrate_claim(file: Path) -> None:
    """The number of queries was called rows."""
    claim = read_json(file)
    if "rows" in claim["text"][-1]:
        claim["text"][-1] = {"queries": claim["text"][-1]["rows"]}
        write_json(file, claim)


def _settings(kind: str, what: Json) -> Json:
    if kind in ("evaluate", "temperatures", "location"):
        return {"retrieval": _retrieval(what["arm"])}
    if kind == "counts":
        return {"retrieval": _retrieval(what["arm"]), "ks": what["ks"]}
    if kind == "words":
        names = ("exact", "approximate")
        return {**{n: _retrieval(what[n]) for n in names}, "least": what["least"]}
    if kind == "learned":
        return _learned(what)
    if kind == "combined":
        return {
            "parts": [_learned(part) for part in what["parts"]],
            "neighbors": [_retrieval(arm) for arm in what["neighbours"]],
        }
    if kind == "ensemble":
        return {
            "others": [_checkpoint(*lm) for lm in what["others"]],
            "neighbors": [_retrieval(arm) for arm in what["neighbours"]],
            "lm": _checkpoint("main"),
        }
    changed = {name: value for name, value in what.items() if name != "of"}
    if "retrieved" in what:
        changed["retrieved"] = what["retrieved"] and _retrieval(what["retrieved"])
    return {"lm": _checkpoint(what["of"]), **changed}


def _checkpoint(name: str, step: int | None = None) -> Json:
    return {"name": name, "step": step}


def _retrieval(arm: Json) -> Json:
    changed = {name: value for name, value in arm.items() if name != "mask"}
    score = SCORES.get(arm["score"], arm["score"])
    return {**changed, "search": SEARCHES[arm["mask"]], "score": score}


def _learned(what: Json) -> Json:
    names = {"kind": "component", "lam": "lambda"}
    kept = {names.get(n, n): value for n, value in what.items() if n not in ("of", "step")}
    kept["component"] = COMPONENTS.get(what["kind"], what["kind"])
    return {"lm": _checkpoint(what["of"], what["step"]), **kept}


def _about(lm: Json) -> Json:
    return {**{field.name: None for field in fields(AboutLM)}, **lm}


def _with_points(results: Json) -> Json:
    """What most kinds of measurements share: renamed points, LMs, sums over documents."""
    changed = {POINTS.get(name, name): value for name, value in results.items()}
    changed["lm"] = _about(results["lm"])
    sums = {name: value for name, value in results["documents"].items() if name != "tokens"}
    tokens = results["documents"]["tokens"]
    changed["documents"] = {
        "tokens": tokens,
        "log_likelihood": {_point(name): value for name, value in sums.items()},
    }
    return changed


def _point(name: str) -> str:
    """`tuned_alone` is own_tau_alone."""
    first, _, rest = name.partition("_")
    return name if first not in POINTS else "_".join([POINTS[first], *([rest] if rest else [])])


def _with_entries(results: Json) -> Json:
    changed = _with_points(results)
    return {**{n: v for n, v in changed.items() if n != "rows"}, "entries": changed["rows"]}


def _curve(results: Json) -> Json:
    points = [{POINTS.get(n, n): v for n, v in point.items()} for point in results["points"]]
    return {**results, "points": points}


def _learned_measurement(results: Json) -> Json:
    changed = _with_points(results)
    learned = changed.pop("learned")
    cost = ("parameters", "multiplications", "widths")
    fit = {name: value for name, value in learned.items() if name not in cost}
    return {**changed, "added": {name: learned[name] for name in cost}, "fit": fit or None}


def _combined(results: Json) -> Json:
    changed = _with_points(results)
    return {**{n: v for n, v in changed.items() if n != "learned"}, "added": changed["learned"]}


def _ensemble(results: Json) -> Json:
    about = {field.name for field in fields(AboutLM)}
    others = [
        {
            **{name: value for name, value in other.items() if name not in about},
            "lm": {name: value for name, value in other.items() if name in about},
        }
        for other in results["others"]
    ]
    return {**_with_points(results), "others": [{**o, "lm": _about(o["lm"])} for o in others]}


def _reach(results: Json) -> Json:
    names = {"words": "vocabulary", "programmes": "linear_programs", "which": "examples"}
    changed = {names.get(name, name): value for name, value in results.items()}
    return {**changed, "lm": _about(results["lm"])}


def _location(results: Json) -> Json:
    def dependence(old: Json) -> Json:
        names = ("r", "low", "high")
        ranges = [
            {("position" if n == "place" else n): v for n, v in r.items()} for r in old["ranges"]
        ]
        correlation = {name: old[name] for name in names} if "r" in old else None
        kept = {name: value for name, value in old.items() if name not in names}
        return {**kept, "ranges": ranges, "correlation": correlation}

    both = {
        kind: {name: dependence(old) for name, old in results[kind].items()}
        for kind in ("window", "document")
    }
    return {"lm": _about(results["lm"]), **both}


_MEASUREMENTS: dict[str, Callable[[Json], Json]] = {
    "evaluate": _with_entries,
    "temperatures": _curve,
    "counts": _curve,
    "location": _location,
    "words": lambda results: {"types": results["words"]},
    "learned": _learned_measurement,
    "combined": _combined,
    "listed": _with_points,
    "reach": _reach,
    "ensemble": _ensemble,
    "unmasked": _with_entries,
}


def main(arguments: list[str]) -> int:
    """Migrate the folder that is given."""
    if len(arguments) != 1:
        print("usage: python scripts/migrate_records.py RESULTS_FOLDER", file=sys.stderr)
        return 2
    try:
        checked = migrate(Path(arguments[0]))
    except KnnlmError as error:
        print(f"migrate_records: {error}", file=sys.stderr)
        return 1
    print(
        f"{checked.records} records: {checked.numbers:,} numbers and {checked.texts:,} texts are "
        f"the same, {checked.added:,} fields that format 1 did not have are null"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
