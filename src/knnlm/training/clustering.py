"""A datastore compressed into clusters: k-means over some entries, then every entry counted in one.

FAISS's k-means; the paper's code gave it 20 rounds over a fifth of its entries, some 340 for each
centroid. Kept in a file and found again. What comes out votes at τ = 1 until somebody tunes it.
"""

from pathlib import Path
from typing import Annotated, Any, TypedDict

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import Clusters, load_component, token_shares
from knnlm.datastore import Column, Entries
from knnlm.errors import DamagedError, UsageError
from knnlm.progress import ProgressBar, log
from knnlm.similarity import Metric
from knnlm.stored_fields import Within, check_fields
from knnlm.tensors import read_tensors, save_tensors

ROUNDS = 10
POINTS = 32
"""Entries for each centroid that k-means looks at, at most."""
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
    """Clusters of a datastore's hidden states.

    Args:
        store: The datastore.
        key: Which hidden state.
        count: How many clusters; fewer come out where some stay empty.
        metric: How a hidden state is compared with centroids afterwards; k-means itself uses L2.
        file: Where the result is kept.
        seed: Of the entries that k-means looks at, and of its start.

    Raises:
        UsageError: If there are fewer entries than clusters.
    """
    if count > store.count:
        raise UsageError(
            f"{count:,} clusters are more than the {store.count:,} entries: choose fewer"
        )
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
        saved = load_component(file, checksum_required=True)
        if saved.about != about or not isinstance(saved.component, Clusters):
            raise DamagedError(
                f"{file} holds other clusters: delete it and run the same command again"
            )
        return saved.component
    column = store.key(key)
    rounds = file.with_name(f"{file.stem}-rounds{file.suffix}")
    means = _k_means(column, count, rounds, about)
    nearest = _nearest_centroids(column, means)
    # an empty cluster would take probability and give none
    used, cluster_of = np.unique(nearest, return_inverse=True)
    shares = token_shares(cluster_of, store.targets, len(used), store.vocab_size)
    centroids = torch.from_numpy(means[used])
    clusters = Clusters((key,), centroids, torch.zeros(len(used)), *shares, metric, 1.0)
    clusters.save(file, about)
    rounds.unlink(missing_ok=True)
    return clusters


class _Rounds(TypedDict):
    """What is known of k-means that was begun."""

    about: dict[str, Any]
    rounds: Annotated[int, Within(0, ROUNDS)]


def _nearest_centroids(column: Column, means: NDArray[np.float32]) -> NDArray[np.int64]:
    index = faiss.IndexFlatL2(column.type.width)
    index.add(means)
    nearest = np.empty(len(column), np.int64)
    with ProgressBar("assign", len(column), "entries") as bar:
        for start, rows in column.blocks(_BLOCK):
            nearest[start : start + len(rows)] = index.search(rows.astype(np.float32), 1)[1][:, 0]
            bar.advance(len(rows))
    return nearest


def _k_means(column: Column, count: int, file: Path, about: dict[str, Any]) -> NDArray[np.float32]:
    """Centroids, a round at a time: each is kept, so that an interrupted run resumes with the
    next."""
    means: NDArray[np.float32] | None = None
    done = 0
    if file.is_file():
        tensors, note = read_tensors(file)
        known = check_fields(_Rounds, note, file, "delete it and run the same command again")
        if known["about"] == about and set(tensors) == {"means"}:
            means, done = tensors["means"].numpy(), known["rounds"]
    size = min(len(column), POINTS * count)
    sample = np.random.default_rng(about["seed"]).choice(len(column), size, replace=False)
    rows = column.gather(np.sort(sample)).astype(np.float32)
    log.info(f"k-means: {count:,} clusters of {len(sample):,} entries")
    with ProgressBar("k-means", ROUNDS, "rounds", done) as bar:
        for number in range(done, ROUNDS):
            one_round = faiss.Kmeans(
                column.type.width,
                count,
                niter=1,
                seed=about["seed"] + 1,
                min_points_per_centroid=1,
                max_points_per_centroid=POINTS,
            )
            one_round.train(rows, init_centroids=means)
            means = np.asarray(one_round.centroids, np.float32)
            tensors = {"means": torch.from_numpy(means)}
            save_tensors(file, tensors, {"about": about, "rounds": number + 1})
            bar.advance(1)
    assert means is not None
    return means
