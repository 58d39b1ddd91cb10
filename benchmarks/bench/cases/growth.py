"""Time and peak memory against the number of entries: build, index, search, tune.

Each operation runs in a process of its own for each size. What was measured is kept, so an
interrupted run resumes, unless the commit is another. A build with a real model is limited by the
model: here it is one layer with random weights, 256 wide, that reads made-up words. The datastores
of the other operations are made up too (states.py), and are read from the page cache.
"""

import json
import shutil
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.growth_point import (
    OPERATIONS,
    QUERIES,
    VALIDATION_TOKENS,
    WIDTH,
    K,
    small_model,
)
from bench.own_process import in_own_process
from bench.setting import Setting
from bench.states import made_up_store
from bench.timing import spread
from knnlm.experiments.provenance import commit
from knnlm.search import build_index

TITLE = "Growth"
_SIZES, _LARGE, _QUICK_SIZES = (10_000, 100_000, 1_000_000), 10_000_000, (2_000, 10_000)
_WARM = 1_999
"""Entries of the datastore on which each operation is done first."""
_FROM = 100_000
"""Slopes are fitted from here on: below it, fixed costs count."""


def measure(setting: Setting) -> dict[str, Any]:
    """Every operation at every size, and the slopes."""
    sizes = _QUICK_SIZES if setting.quick else _SIZES
    if setting.large:
        sizes = (*sizes, _LARGE)
    work = setting.work / "growth"
    work.mkdir(parents=True, exist_ok=True)
    small_model(work)
    store, _ = made_up_store(work, _WARM, WIDTH, VALIDATION_TOKENS).open()
    build_index(store, "att", "l2")
    points = [_measured(setting, operation, n) for n in sizes for operation in OPERATIONS]
    slopes = [_slopes(operation, points) for operation in OPERATIONS]
    return {
        "points": points,
        "slopes_from": _FROM,
        "slopes": slopes,
        "tables": [_table(points), _slope_table(slopes)],
    }


def _measured(setting: Setting, operation: str, entries: int) -> dict[str, Any]:
    """One point, from its file if it was measured at this commit."""
    work, now = setting.work / "growth", commit()
    file = work / f"{operation.replace(' ', '-')}-{entries}.json"
    kept = json.loads(file.read_text()) if file.is_file() else None
    if kept is not None and kept["commit"] == now:
        return dict(kept)
    made_up_store(work, entries, WIDTH, VALIDATION_TOKENS)
    argument = {
        "operation": operation,
        "entries": entries,
        "warm": _WARM,
        "rounds": 1 if setting.quick else setting.repeats,
        "work": str(work),
    }
    result, peak = in_own_process("bench.growth_point", argument)
    shutil.rmtree(work / f"built-{entries}", ignore_errors=True)
    point = {
        "operation": operation,
        "entries": result["entries"],
        "seconds": spread(result["seconds"]),
        "rounds": len(result["seconds"]),
        "anonymous_bytes": peak.anonymous,
        "resident_bytes": peak.resident,
        "commit": now,
    }
    file.write_text(json.dumps(point) + "\n")
    print(f"    {point}", flush=True)
    return point


def _slopes(operation: str, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How time and memory grow: exponents of N, from _FROM on and over all sizes."""
    own = [point for point in points if point["operation"] == operation]
    large = [point for point in own if point["entries"] >= _FROM]
    return {
        "operation": operation,
        "seconds": slope([(p["entries"], p["seconds"][1]) for p in large]),
        "seconds_all": slope([(p["entries"], p["seconds"][1]) for p in own]),
        "memory": slope([(p["entries"], p["anonymous_bytes"]) for p in large]),
        "memory_all": slope([(p["entries"], p["anonymous_bytes"]) for p in own]),
    }


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The exponent b of a·Nᵇ by least squares of logarithms; None for fewer than two points.

    Args:
        points: N and what grows with it; points that are not above zero are left out.
    """
    known = [(n, value) for n, value in points if value > 0]
    if len(known) < 2:
        return None
    sizes, values = np.log(np.array(known, float)).T
    sizes, values = sizes - sizes.mean(), values - values.mean()
    return round(float(sizes @ values / (sizes @ sizes)), 3)


def _table(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": f"Time is the median of up to three rounds; searches are of {QUERIES} queries, k "
        f"{K:,}, L2, with their index open; `tune` searches for {VALIDATION_TOKENS:,} tokens and "
        "fits λ and τ. Memory is the peak of the first round, with opening the datastore, less "
        "what the process had before. Anonymous memory is what the operation asked for; resident "
        "memory has pages of the datastore's files in it, which the system may take back. `build` "
        "is of a model with one layer and random weights over made-up words; the other datastores "
        "are made up altogether.",
        "head": ["", "entries", "seconds", "anonymous, MB", "resident, MB"],
        "rows": [
            [
                operation,
                f"{point['entries']:,}",
                _seconds(statistics.median(point["seconds"])),
                f"{point['anonymous_bytes'] / 1e6:,.0f}",
                f"{point['resident_bytes'] / 1e6:,.0f}",
            ]
            for operation in OPERATIONS
            for point in points
            if point["operation"] == operation
        ],
    }


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _slope_table(slopes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    fields = ("seconds", "seconds_all", "memory", "memory_all")
    return {
        "title": "Slopes of the straight lines on a log plot: b of N^b, by least squares from "
        f"{_FROM:,} entries on, and over all sizes. Memory is the anonymous memory.",
        "head": ["", f"time, N ≥ {_FROM:,}", "time, all", f"memory, N ≥ {_FROM:,}", "memory, all"],
        "rows": [
            [row["operation"], *("" if row[f] is None else f"{row[f]:.2f}" for f in fields)]
            for row in slopes
        ],
    }
