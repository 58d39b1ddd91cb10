"""Searching real states: exact search beside `faiss.knn`, and indexes by recall, speed and size.

    .venv/bin/python benchmarks/search.py STORE QUERIES [--key att] [--metric l2] [--queries 2048]
                                          [--repeats 5] [--index default|small|FACTORY …]

STORE and QUERIES are datastores of two texts under one model. Ours and `faiss.knn` take turns;
`faiss.knn` has the states as fp32 in memory, ours reads fp16 from disk. Indexes are built beside
the datastore if they are not there. Prints one JSON object.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from knnlm.datastore import open_entries
from knnlm.search import Neighbors, build_index, exact_search, recall
from knnlm.search.faiss_index import faiss_metric
from knnlm.search.precision import fastest_dtype
from knnlm.similarity import as_float32, checked_metric


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def multiplied(size: int, dtype: torch.dtype) -> float:
    """GFLOP/s of square products on all cores: the machine's limit."""
    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
    fastest = min(seconds(lambda: torch.mm(left, right)) for _ in range(5))
    return round(2 * size**3 / fastest / 1e9, 1)


def spread(values: list[float]) -> list[float]:
    """Least, median and greatest."""
    return [round(v, 3) for v in (min(values), statistics.median(values), max(values))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("queries_store", type=Path, metavar="QUERIES")
    parser.add_argument("--key", default="att")
    parser.add_argument("--metric", default="l2")
    parser.add_argument("--queries", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--index", nargs="*", default=["default"])
    given = parser.parse_args()
    metric, k = checked_metric(given.metric), 1024
    store, keys = open_entries(given.store), open_entries(given.store).key(given.key)
    column = open_entries(given.queries_store).key(given.key)
    rows = np.random.default_rng(0).choice(len(column), given.queries, replace=False)
    queries = as_float32(column.gather(np.sort(rows)))
    wide = as_float32(keys.all())
    ours, theirs = [], []
    for _ in range(given.repeats):
        ours.append(seconds(lambda: exact_search(queries, keys, k, metric)))
        theirs.append(seconds(lambda: faiss.knn(queries, wide, k, faiss_metric(metric))))
    truth = exact_search(queries, keys, k, metric)
    one = [seconds(lambda i=i: exact_search(queries[i : i + 1], keys, k, metric)) for i in range(9)]
    work = 2 * len(queries) * len(keys) * keys.type.width / 1e9
    record: dict[str, Any] = {
        "entries": len(keys),
        "width": keys.type.width,
        "key": given.key,
        "metric": metric,
        "queries": len(queries),
        "k": k,
        "products_in": str(fastest_dtype()),
        "limits_gflops": {str(d): multiplied(4096, d) for d in (torch.float32, torch.bfloat16)},
        "exact_gflops": spread([work / s for s in ours]),
        "faiss_knn_gflops": spread([work / s for s in theirs]),
        "exact_over_faiss_knn": spread([b / a for a, b in zip(ours, theirs, strict=True)]),
        "exact_one_query_ms": spread([1000 * s for s in one]),
        "indexes": [],
    }
    indexes = []
    for name in given.index:
        factory = None if name == "default" else name
        indexes.append(build_index(store, given.key, metric, factory=factory))
    rates: list[list[float]] = [[] for _ in indexes]
    for _ in range(given.repeats):
        for rate, index in zip(rates, indexes, strict=True):
            rate.append(len(queries) / seconds(lambda index=index: index.search(queries, k)))
    for rate, index in zip(rates, indexes, strict=True):
        near: Neighbors = index.search(queries, k)
        singly = [
            1000 * seconds(lambda i=i, index=index: index.search(queries[i : i + 1], k))
            for i in range(50)
        ]
        m = index.manifest
        record["indexes"].append(
            {name: m[name] for name in ("factory", "nprobe", "refine", "seconds")}
            | {
                "recall": round(recall(near, truth), 4),
                "queries_per_second": spread(rate),
                "one_query_ms": spread(singly),
                "bytes_per_entry": round(m["bytes"] / m["rows"], 1),
            }
        )
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
