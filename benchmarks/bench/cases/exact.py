"""Exact search of fp16 states on disk, beside `faiss.knn` with the states as fp32 in memory."""

from typing import Any

import faiss
import numpy as np

from bench.setting import Setting
from bench.states import made_up_states
from bench.timing import compared, fastest, in_turn, spread
from knnlm.datastore import Column
from knnlm.search import exact_search
from knnlm.search.faiss_index import faiss_metric
from knnlm.search.precision import fastest_dtype
from knnlm.similarity import Metric, as_float32, checked_metric

TITLE = "Exact search"
_K = 1024
_QUERIES = 2048
_SIZES = ((1_000_000, 128), (500_000, 256), (300_000, 768), (200_000, 1024))
_QUICK_SIZES = ((60_000, 128),)


def measure(setting: Setting) -> dict[str, Any]:
    """Many queries beside faiss.knn, and few beside reading the bytes."""
    rows: list[dict[str, Any]] = []
    few: list[dict[str, Any]] = []
    for entries, width in _QUICK_SIZES if setting.quick else _SIZES:
        column, queries = made_up_states(setting.work, entries, width, _QUERIES)
        rows.append(_many("made-up", column, queries, "l2", setting))
        if not setting.quick:
            few += _few("made-up", column, queries, "l2")
    for pair in setting.stores:
        store, text = pair.open()
        for key, metric in (("att", "l2"), ("ffn", "ip")):
            asked = text.key(key)
            ids = np.random.default_rng(0).choice(len(asked), min(_QUERIES, len(asked)), False)
            queries = as_float32(asked.gather(np.sort(ids)))
            column = store.key(key)
            rows.append(_many(f"{pair.name}, {key}", column, queries, metric, setting))
            few += _few(f"{pair.name}, {key}", column, queries, metric)
    return {
        "products_in": str(fastest_dtype()),
        "comparisons": rows,
        "tables": [_table(few)] if few else [],
    }


def _table(few: list[dict[str, Any]]) -> dict[str, Any]:
    """Few queries at once: times in multiples of reading the states."""
    return {
        "title": "Few queries at once, beside reading the bytes; at most three times is the aim.",
        "head": ["", "ms", "reading, ms", "multiple"],
        "rows": [
            [row["subject"], row["ms"][1], row["reading_ms"], row["multiple"][1]] for row in few
        ],
        "data": few,
    }


def _size(column: Column, queries: int) -> str:
    return f"{queries:,} × {len(column):,} × {column.type.width}"


def _many(
    name: str, column: Column, queries: np.ndarray, metric: str, setting: Setting
) -> dict[str, Any]:
    checked: Metric = checked_metric(metric)
    wide = as_float32(column.all())
    work = 2 * len(queries) * len(column) * column.type.width / 1e9
    return compared(
        f"{name}: {_size(column, len(queries))}, {metric}",
        "faiss.knn, fp32 in memory",
        "GFLOP/s",
        work,
        lambda: exact_search(queries, column, _K, checked),
        lambda: faiss.knn(queries, wide, _K, faiss_metric(checked)),
        setting.repeats,
        aim=None if setting.quick else 1.3,
    )


def _few(name: str, column: Column, queries: np.ndarray, metric: str) -> list[dict[str, Any]]:
    """Times of one query and of eight, in multiples of the time of reading the states once."""
    checked: Metric = checked_metric(metric)
    states = [np.asarray(part).reshape(-1).view(np.int32) for part in column.parts]
    reading = fastest(lambda: [part.max() for part in states])
    rows = []
    for count in (1, 8):
        (times,) = in_turn([lambda n=count: exact_search(queries[:n], column, _K, checked)], 9)
        rows.append(
            {
                "subject": f"{name}: {_size(column, count)}, {metric}",
                "ms": [round(1000 * s, 1) for s in spread(times)],
                "reading_ms": round(1000 * reading, 1),
                "multiple": [round(s / reading, 2) for s in spread(times)],
                "aim": 3.0,
            }
        )
    return rows
