"""Clusters of a datastore: every entry counted in the nearest, found again, learned further."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knnlm.datastore.entries import Entries
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.evaluation.tuning import best_temperature, temperature_sweep
from knnlm.tensors import save_tensors
from knnlm.training import clustering
from knnlm.training.clustering import cluster
from knnlm.training.fit import FitSettings
from knnlm.training.initial import initial_clusters
from knnlm.training.learn import learn
from tests.search.conftest import built as built
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store


def test_every_entry_is_counted_in_the_nearest_cluster(store: Entries, tmp_path: Path) -> None:
    clusters = cluster(store, "att", 9, "l2", tmp_path / "c.safetensors")
    states = torch.from_numpy(store.key("att").all().astype(np.float32))
    nearest = torch.cdist(states, clusters.centroids).argmin(1).numpy()
    sizes = np.bincount(nearest, minlength=len(clusters.centroids))
    assert sizes.min() > 0
    tokens = np.repeat(np.arange(store.vocab_size), clusters.counts.numpy())
    shares = np.zeros((store.vocab_size, len(sizes)))
    shares[tokens, clusters.cluster_ids.numpy()] = clusters.log_shares.exp().numpy()
    assert np.allclose(shares.sum(0), 1, atol=1e-5)
    for c in range(len(sizes)):
        wanted = np.bincount(store.targets[nearest == c], minlength=store.vocab_size) / sizes[c]
        assert np.allclose(shares[:, c], wanted, atol=1e-5)


def test_clusters_are_found_again_and_not_mistaken(store: Entries, tmp_path: Path) -> None:
    first = cluster(store, "att", 5, "l2", tmp_path / "c.safetensors")
    again = cluster(store, "att", 5, "l2", tmp_path / "c.safetensors")
    assert torch.equal(first.centroids, again.centroids)
    with pytest.raises(KnnlmError, match="other clusters"):
        cluster(store, "ffn", 5, "l2", tmp_path / "c.safetensors")
    with pytest.raises(UsageError, match="more than the"):
        cluster(store, "att", store.count + 1, "l2", tmp_path / "d.safetensors")


def test_an_interrupted_k_means_resumes_and_ends_the_same(
    store: Entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cluster(store, "att", 7, "l2", tmp_path / "whole.safetensors")
    real, rounds = save_tensors, 0

    def dies(*given: Any) -> None:
        nonlocal rounds
        rounds += 1
        real(*given)
        if rounds == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(clustering, "save_tensors", dies)
    with pytest.raises(KeyboardInterrupt):
        cluster(store, "att", 7, "l2", tmp_path / "cut.safetensors")
    again = cluster(store, "att", 7, "l2", tmp_path / "cut.safetensors")
    assert rounds == clustering.ROUNDS  # none was made twice
    assert torch.equal(again.centroids, whole.centroids)
    assert sorted(f.name for f in tmp_path.glob("*.safetensors")) == [
        "cut.safetensors",
        "whole.safetensors",
    ]


def test_a_flipped_bit_of_what_k_means_kept_is_not_used(
    store: Entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = save_tensors

    def dies(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(clustering, "save_tensors", dies)
        with pytest.raises(KeyboardInterrupt):
            cluster(store, "att", 7, "l2", tmp_path / "c.safetensors")
    flip(tmp_path / "c-rounds.safetensors")
    with pytest.raises(DamagedError, match=r"c-rounds.safetensors is damaged: delete"):
        cluster(store, "att", 7, "l2", tmp_path / "c.safetensors")


def test_a_flipped_bit_of_clusters_is_not_used(store: Entries, tmp_path: Path) -> None:
    cluster(store, "att", 5, "l2", tmp_path / "c.safetensors")
    flip(tmp_path / "c.safetensors")
    with pytest.raises(DamagedError, match=r"c.safetensors is damaged: delete"):
        cluster(store, "att", 5, "l2", tmp_path / "c.safetensors")


def flip(file: Path) -> None:
    """Change one bit of the last tensor."""
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)


def test_learning_them_further_lowers_the_mixture(
    store: Entries, queries: Entries, tmp_path: Path
) -> None:
    made = cluster(store, "att", 12, "l2", tmp_path / "c.safetensors")
    lm = queries.lm_logprob.astype(np.float64)
    start = best_temperature(lm, made.target_scores(queries))
    further = learn(
        initial_clusters(made.at_temperature(start.tau)),
        store,
        queries,
        tmp_path / "fit",
        FitSettings(lr=1e-2, epochs=3, patience=9),
        about={},
    )
    component = further.component
    (after,) = temperature_sweep(lm, component.target_scores(queries), [component.tau])
    assert after.ppl <= start.ppl
    assert further.fit.valid_loss == pytest.approx(np.log(after.ppl), abs=1e-4)
