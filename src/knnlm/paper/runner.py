"""Recipes → records on disk, one JSON for each row, resumable; then the report.

    OUT/scale.json       which scale and text these results are of; others are refused
    OUT/rows/<row>.json  what came out, and how: command, commit, versions, seed, machine, seconds
    OUT/work/            LMs, stores, indexes, neighbours (large; may be deleted when all rows are there)

A row's record depends on the row, the scale and the text alone, so a killed run that is run again
ends with the same results as one that was never killed; only `provenance` tells them apart. (On one
kind of CPU, with as many threads: other vector instructions round otherwise, and after hundreds of
updates that is another LM of the same recipe.)"""

import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import fingerprint, read_json, write_json, write_lock
from knnlm.paper.apprentice import made_with
from knnlm.paper.measure import Bench
from knnlm.paper.recipes import recipes as every_recipe
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Combined, Evaluate, Learned, Recipe, Row, lms_of
from knnlm.paper.scales import Scale, Texts, texts, with_models
from knnlm.paper.teaching import soft_labels
from knnlm.paper.workshop import Search, Workshop, search_of
from knnlm.progress import log

FORMAT = 1
SCALE_FILE = "scale.json"
ROWS = "rows"


class Outcome(NamedTuple):
    """What a run came to."""

    folder: Path
    rows: int
    measured: int
    seconds: float


def unique_rows(recipes: Iterable[Recipe]) -> list[Row]:
    """The rows of several recipes, each once, those of one LM together so that it is opened
    once."""
    found = dict.fromkeys(row for recipe in recipes for row in recipe.rows)
    places = {lm: i for i, lm in enumerate(dict.fromkeys(row.lm for row in found))}
    return sorted(found, key=lambda row: places[row.lm])


def most_neighbours(rows: Iterable[Row], scale: Scale) -> dict[Search, int]:
    """How many neighbours each search must find to serve all rows; the τ that arms share is the
    paper's arm's."""
    found: dict[Search, int] = {}
    for row in rows:
        shared = (
            [replace(paper_arm(scale, row.lm[0]), step=row.lm[1])]
            if isinstance(row, Evaluate)
            else []
        )
        if any(
            scale.other(lm) is None and scale.lm(lm).teacher == "knn-lm" for lm, _ in lms_of(row)
        ):
            shared.append(exactly(paper_arm(scale)))  # whose τ and λ the teacher has
        for arm in (*row.arms, *shared):
            search = search_of(arm)
            found[search] = max(found.get(search, 0), arm.k)
    return found


def reproduce(
    recipes: Iterable[Recipe],
    scale: Scale,
    out: Path,
    data: Path | None,
) -> Outcome:
    """Measure every row that `out` does not hold yet."""
    began = time.monotonic()
    check_data(scale, data)
    chosen = list(recipes)
    found = texts(scale, data)
    about = _about(scale, found)
    with write_lock(out):
        _claim(out, about)
        rows = unique_rows(chosen)
        missing = [row for row in rows if not _measured(out, row, scale)]
        bench = Bench(
            Workshop(scale, found, out / "work", most_neighbours(rows, scale), soft_labels)
        )
        known = _known_lms(out, scale)
        for place, row in enumerate(missing, start=1):
            log.info(f"[{place}/{len(missing)}] {row.name}")
            for name in {name for name, _ in lms_of(row)} & known.keys():
                _refuse_another_lm(name, known.pop(name), bench, out)
            _measure(bench, row, scale, out, _command(chosen, row, scale, data))
    return Outcome(out, len(rows), len(missing), time.monotonic() - began)


def check_data(scale: Scale, data: Path | None) -> None:
    """Refuse a folder that is not there, or one for a scale that has its text with it."""
    if data is None:
        return
    if scale.text == "embedded":
        raise UsageError(
            f"scale {scale.name} uses the embedded text: leave out --data, or choose laptop or "
            "paper"
        )
    if not data.is_dir():
        raise UsageError(
            f"there is no folder {data}: give the folder of wiki.train.tokens with --data"
        )
    if not (data / "wiki.train.tokens").is_file():
        raise UsageError(
            f"{data} has no wiki.train.tokens: give the folder of a WikiText with --data"
        )


def check_scale(folder: Path, scale: Scale) -> None:
    """Refuse a folder that holds no results, or those of another scale."""
    file = folder / SCALE_FILE
    if not file.is_file():
        run = f"knnlm reproduce all --scale {scale.name} --out {folder}"
        raise KnnlmError(f"{folder} holds no results: run '{run}' first")
    if (found := read_json(file)["scale"]) != scale.name:
        raise KnnlmError(f"{folder} holds results of scale {found}: add --scale {found}")


def with_known_models(folder: Path, scale: Scale) -> Scale:
    """The scale with the further LMs that the folder has results of."""
    known = {lm.name for lm in scale.others}
    sources = read_json(folder / SCALE_FILE)["others"]
    return with_models(scale, [source for name, source in sources.items() if name not in known])


def load_records(folder: Path) -> dict[str, dict[str, Any]]:
    """All records of a results folder, by row name."""
    files = sorted((folder / ROWS).glob("*.json"))
    if not files:
        raise KnnlmError(
            f"{folder} holds no results: run 'knnlm reproduce all --out {folder}' first"
        )
    return {file.stem: read_json(file, newest_format=FORMAT) for file in files}


def _about(scale: Scale, found: Texts) -> dict[str, Any]:
    """What every row depends on beside its own settings."""
    return {
        "scale": scale.name,
        "text": [
            found.train.describe(),
            found.valid.describe(),
            found.test.describe(),
            {"rows": scale.eval_rows},
        ],
        "lms": {lm.name: fingerprint(lm.describe()) for lm in scale.lms},
        "others": {lm.name: lm.source for lm in scale.others},
    }


def _claim(out: Path, about: dict[str, Any]) -> None:
    """Results of different scales, texts or LMs do not belong in one folder; further LMs may
    join."""
    file = out / SCALE_FILE
    if not file.is_file():
        strangers = [p.name for p in out.iterdir() if p.name not in ("work", ".lock")]
        if strangers:
            raise KnnlmError(
                f"{out} is not empty ({strangers[0]} …): choose another --out; nothing was changed"
            )
        (out / ROWS).mkdir(exist_ok=True)
        write_json(file, about)
        return
    before = read_json(file)
    if before["scale"] != about["scale"]:
        other = f"scale {before['scale']}, not {about['scale']}"
    elif before["text"] != about["text"]:
        other = "another text"
    else:
        changed = [
            f"another LM called {name}"
            for what in ("lms", "others")
            for name, value in about[what].items()
            if before[what].get(name, value) != value
        ]
        if not changed:
            write_json(
                file,
                {**about, **{what: {**before[what], **about[what]} for what in ("lms", "others")}},
            )
            return
        other = changed[0]
    raise KnnlmError(f"{out} holds results of {other}: choose another --out; nothing was changed")


def _known_lms(out: Path, scale: Scale) -> dict[str, dict[int | None, set[str]]]:
    """Of each LM that the folder has rows of, the fingerprints at each update."""
    rows = {row.name: row for row in unique_rows(every_recipe(scale))}
    known: dict[str, dict[int | None, set[str]]] = {}
    for file in (out / ROWS).glob("*.json"):
        if file.stem in rows:
            made = read_json(file)["provenance"]
            for name, step, fingerprint in (
                *made.get("other_models", ()),
                (*rows[file.stem].lm, made["model"]),
            ):
                known.setdefault(name, {}).setdefault(step, set()).add(fingerprint)
    return known


def _refuse_another_lm(
    name: str, known: dict[int | None, set[str]], bench: Bench, out: Path
) -> None:
    """Rows are compared token by token: an LM that is trained again must come out the same."""
    if any(
        {bench.workshop.model(name, step).fingerprint} != found for step, found in known.items()
    ):
        raise KnnlmError(
            f"{out} holds rows of another LM called {name} than the one in "
            f"{out / 'work' / 'lm' / name} (another kind "
            "of CPU or number of threads trains another LM): choose another --out, or delete "
            f"{out / 'work'} and train as before ('The same numbers again' in docs/reproduce.md)"
        )


def _measure(bench: Bench, row: Row, scale: Scale, out: Path, command: str) -> None:
    clock = out / "work" / "clocks" / f"{row.name}.json"
    before = float(read_json(clock)["seconds"]) if clock.is_file() else 0.0
    began, trained = time.monotonic(), bench.workshop.training

    def seconds() -> float:
        """Since the row was begun, what was done before Ctrl-C included; training has its own
        clock."""
        return before + time.monotonic() - began - (bench.workshop.training - trained)

    try:
        results = bench.measure(row)
    except BaseException:
        clock.parent.mkdir(parents=True, exist_ok=True)
        write_json(clock, {"seconds": seconds()})
        raise
    write_json(
        _file(out, row),
        {
            "format": FORMAT,
            "row": row.name,
            "kind": type(row).__name__.lower(),
            "scale": scale.name,
            "what": asdict(row),
            "made_with": _made_with(row, scale),
            "results": results,
            "provenance": _provenance(command, scale, row, bench, seconds()),
        },
    )
    clock.unlink(missing_ok=True)


def _measured(out: Path, row: Row, scale: Scale) -> bool:
    """Whether a row is there; something learned in another way than this scale learns is not."""
    file = _file(out, row)
    return file.is_file() and read_json(file).get("made_with") == _made_with(row, scale)


def _made_with(row: Row, scale: Scale) -> str | None:
    return made_with(scale) if isinstance(row, Learned | Combined) else None


def _file(out: Path, row: Row) -> Path:
    return out / ROWS / f"{row.name}.json"


def _command(recipes: list[Recipe], row: Row, scale: Scale, data: Path | None) -> str:
    """The command that makes this row, wherever one's folders are."""
    name = next(r.name for r in recipes if row in r.rows)
    folder = f" --data {data.name}" if data is not None else ""
    other = scale.other(row.lm[0])
    model = ""
    if other is not None and name == "models":  # of a folder its own name, not where it is
        model = (
            f" --model {Path(other.source).name if Path(other.source).exists() else other.source}"
        )
    return f"knnlm reproduce {name} --scale {scale.name}{folder}{model}"


def _provenance(
    command: str, scale: Scale, row: Row, bench: Bench, seconds: float
) -> dict[str, Any]:
    packages = ("knnlm", "torch", "transformers", "faiss-cpu", "numpy", "scipy")
    lm, step = row.lm
    return {
        "model": bench.workshop.model(lm, step).fingerprint,
        "other_models": [
            (other, at, bench.workshop.model(other, at).fingerprint)
            for other, at in lms_of(row)[:-1]
        ],
        "train_seconds": bench.workshop.training_seconds(lm),
        "others_train_seconds": {
            other: bench.workshop.training_seconds(other) for other, _ in lms_of(row)[:-1]
        },
        "command": command,
        "commit": _commit(),
        "seed": _seed(scale, lm),
        "versions": {
            "python": platform.python_version(),
            **{p: importlib.metadata.version(p) for p in packages},
        },
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
    }


def _seed(scale: Scale, lm: str) -> int | None:
    """The seed of an LM that was trained here."""
    return None if scale.other(lm) is not None else scale.lm(lm).seed


def _commit() -> str | None:
    """The commit of a checkout, marked where files differ from it; None for an installed
    package."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--match="],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
