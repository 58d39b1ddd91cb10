"""A store → clusters: k-means over some of its rows, then every row counted in the nearest.

FAISS's k-means; the paper's code gave it 20 rounds over a fifth of its rows, some 340 for each
centroid. Kept in a file, found again. Knows nothing of τ: what comes out votes at τ = 1 until
somebody tunes it."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.clusters import Clusters, word_shares
from knnlm.components.saving import load_component, save_component
from knnlm.datastore.entries import Entries
from knnlm.datastore.table import Column
from knnlm.errors import DamagedError, UsageError
from knnlm.progress import ProgressBar, log
from knnlm.similarity import Metric
from knnlm.tensors import read_tensors, save_tensors

ROUNDS = 10
POINTS = 32
"""Rows for each centroid that k-means looks at, at most."""
_BLOCK = 1 << 14


def cluster(
    store: Entries,
    key: str,
    count: int,
    metric: Metric,
    file: Path,
    *,
    seed: int = 0,
) -> Clusters:
    """`count` clusters of a store's states (fewer where some stay empty); L2 k-means, scored by
    `metric` afterwards."""
    if count > store.count:
        raise UsageError(f"{count:,} clusters are more than the {store.count:,} rows: choose fewer")
    about = {
        "store": store.fingerprint,
        "key": key,
        "count": count,
        "metric": metric,
        "seed": seed,
        "rounds": ROUNDS,
        "points": POINTS,
    }
    if file.is_file():
        saved = load_component(file)
        if saved.about != about or not isinstance(saved.component, Clusters):
            raise DamagedError(
                f"{file} holds other clusters: delete it and run the same command again"
            )
        return saved.component
    column = store.key(key)
    means = _means(column, count, file.with_name(f"{file.stem}-rounds{file.suffix}"), about)
    index = faiss.IndexFlatL2(column.type.width)
    index.add(means)
    nearest = np.empty(store.count, np.int64)
    with ProgressBar("assign", store.count, "rows") as meter:
        for start, rows in column.blocks(_BLOCK):
            nearest[start : start + len(rows)] = index.search(rows.astype(np.float32), 1)[1][:, 0]
            meter.advance(len(rows))
    held, place = np.unique(
        nearest, return_inverse=True
    )  # an empty cluster would take probability and give none
    centroids = torch.from_numpy(means[held])
    votes = word_shares(place, store.targets, len(held), store.vocab_size)
    found = Clusters((key,), centroids, torch.zeros(len(held)), *votes, metric, 1.0)
    save_component(file, found, about)
    file.with_name(f"{file.stem}-rounds{file.suffix}").unlink(missing_ok=True)
    return found


def _means(
    column: Column,
    count: int,
    file: Path,
    about: dict[str, Any],
) -> NDArray[np.float32]:
    """k-means, a round at a time: FAISS's own rounds, each kept so that an interrupted run goes on
    with the next."""
    means: NDArray[np.float32] | None = None
    done = 0
    if file.is_file():
        tensors, note = read_tensors(file)
        if note["about"] == about:
            means, done = tensors["means"].numpy(), int(note["rounds"])
    looked = np.random.default_rng(about["seed"]).choice(
        len(column), min(len(column), POINTS * count), replace=False
    )
    rows = column.gather(np.sort(looked)).astype(np.float32)
    log.info(f"k-means: {count:,} clusters of {len(looked):,} rows")
    with ProgressBar("k-means", ROUNDS, "rounds", done) as meter:
        for place in range(done, ROUNDS):
            one = faiss.Kmeans(
                column.type.width,
                count,
                niter=1,
                seed=about["seed"] + 1,
                min_points_per_centroid=1,
                max_points_per_centroid=POINTS,
            )
            one.train(rows, init_centroids=means)
            means = np.asarray(one.centroids, np.float32)
            save_tensors(
                file, {"means": torch.from_numpy(means)}, {"about": about, "rounds": place + 1}
            )
            meter.advance(1)
    assert means is not None
    return means
