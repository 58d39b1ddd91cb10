"""⊗: how near a query is to a stored state. Higher is nearer, everywhere.

    l2:  -‖h - w‖²          ip:  h · w

The sign of L2 is decided here and nowhere else. fp32 accumulation whatever the storage type. Knows
nothing of search: which rows to score is somebody else's choice."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import unknown

Metric = Literal["l2", "ip"]
METRICS: tuple[Metric, ...] = ("l2", "ip")
_BLOCK_ROWS = 1 << 12


def checked_metric(name: str) -> Metric:
    """`name` as a metric, or an error that lists them."""
    for metric in METRICS:
        if metric == name:
            return metric
    raise unknown("metric", name, METRICS)


def from_distance(metric: Metric, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """What FAISS returns (squared L2 distance, or inner product) as a similarity."""
    return -values if metric == "l2" else values


def score_rows(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float32]:
    """Similarity of queries (B, D) to rows (B, K, D) of their own: (B, K) in fp32, from
    differences, not expansions."""
    q = np.asarray(queries, np.float32)
    w = rows.astype(np.float32)
    if metric == "ip":
        return np.einsum("bkd,bd->bk", w, q)
    w -= q[:, None, :]
    return -np.einsum("bkd,bkd->bk", w, w)


def rescore(
    metric: Metric, queries: NDArray[Any], ids: NDArray[np.integer], keys: Any
) -> NDArray[np.float32]:
    """Real similarities (B, K) of stored rows `ids` of the column `keys`; a missing neighbour (id
    -1) stays -inf.

    A few queries at a time, so that their rows stay in the processor's cache, on all cores.
    """
    scores = np.empty(ids.shape, np.float32)

    def run(start: int) -> None:
        block = slice(start, start + size)
        rows = keys.gather(np.maximum(ids[block], 0))
        scores[block] = score_rows(metric, queries[block], rows)

    size = max(1, _BLOCK_ROWS // max(1, ids.shape[1]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, range(0, len(ids), size)))
    return np.where(ids < 0, np.float32(-np.inf), scores)
