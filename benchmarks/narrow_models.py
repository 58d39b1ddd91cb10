"""What entries lose when the model computes in bfloat16: perplexity and neighbors beside float32.

    knnlm build MODEL --text TRAIN --out STORE
    knnlm build MODEL --text VALID --out QUERIES --logprobs
    (the same twice with --precision bfloat16)
    .venv/bin/python benchmarks/narrow_models.py STORE QUERIES NARROW_STORE NARROW_QUERIES

Neighbors are those of exact search: float32 states among float32 entries, bfloat16 among bfloat16,
as each datastore would use them. Entries have the same ids in both."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from knnlm.datastore import Entries, open_entries
from knnlm.search.exact import exact_search

_K = 1024
_METRICS = {"att": "l2", "ffn": "ip"}


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("store", "queries", "narrow_store", "narrow_queries"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--count", type=int, default=200, help="queries to search for")
    given = parser.parse_args()
    wide = open_entries(given.store), open_entries(given.queries)
    narrow = open_entries(given.narrow_store), open_entries(given.narrow_queries)
    for one, other in zip(wide, narrow, strict=True):
        if not np.array_equal(_column(one, "target"), _column(other, "target")):
            parser.error("the datastores are of different texts")
    logs = [np.asarray(_column(pair[1], "lm_logprob"), np.float64) for pair in (wide, narrow)]
    rows = np.linspace(0, len(logs[0]) - 1, given.count).astype(int)
    result: dict[str, Any] = {
        "entries": wide[0].count,
        "tokens": len(logs[0]),
        "perplexity": [math.exp(-values.mean()) for values in logs],
        "largest difference of log p": float(np.abs(logs[0] - logs[1]).max()),
        "neighbors": {key: _agreement(key, wide, narrow, rows) for key in wide[0].keys},
    }
    print(json.dumps(result, indent=1))


def _column(entries: Entries, name: str) -> np.ndarray:
    return entries.table.columns[name].read(0, entries.count)


def _agreement(
    key: str, wide: tuple[Entries, Entries], narrow: tuple[Entries, Entries], rows: np.ndarray
) -> dict[str, float]:
    """Shares of neighbors that both precisions find."""
    ids = [
        exact_search(_column(queries, key)[rows], store.table.columns[key], _K, _METRICS[key]).ids
        for store, queries in (wide, narrow)
    ]
    shares = np.array([len(np.intersect1d(a, b)) / _K for a, b in zip(*ids, strict=True)])
    nearest = np.array([a[0] == b[0] for a, b in zip(*ids, strict=True)])
    return {
        "mean": float(shares.mean()),
        "least": float(shares.min()),
        "same nearest": float(nearest.mean()),
    }


if __name__ == "__main__":
    main()
