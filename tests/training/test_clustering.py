"""Clusters of a store: every row counted once in the nearest, found again, learned further; and the
best τ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from knnlm.evaluation.component_temperature import at_best_tau, at_best_taus, at_tau

from knnlm.components.head import Head, new_head
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.tensors import save_tensors
from knnlm.training import clustering
from knnlm.training.clustering import cluster
from knnlm.training.fit import FitSettings
from knnlm.training.initial import initial_clusters
from knnlm.training.learn import learn
from tests.search.conftest import built as built
from tests.search.conftest import lm as lm
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store


def test_every_row_is_counted_in_the_nearest_cluster(store: Entries, tmp_path: Path) -> None:
    found = cluster(store, "att", 9, "l2", tmp_path / "c.safetensors")
    states = torch.from_numpy(store.key("att").all().astype(np.float32))
    nearest = torch.cdist(states, found.centroids).argmin(1).numpy()
    sizes = np.bincount(nearest, minlength=len(found.centroids))
    assert sizes.min() > 0
    words = np.repeat(np.arange(store.vocab_size), found.counts.numpy())
    shares = np.zeros((store.vocab_size, len(sizes)))
    shares[words, found.entries.numpy()] = found.shares.exp().numpy()
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


def test_an_interrupted_k_means_goes_on_and_ends_the_same(
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


def test_learning_them_further_lowers_the_mixture(
    store: Entries, queries: Entries, tmp_path: Path
) -> None:
    states = queries.states(("att",))
    begun = at_best_tau(
        cluster(store, "att", 12, "l2", tmp_path / "c.safetensors"),
        queries.lm_logprob,
        states,
        queries.targets,
    )
    further = learn(
        initial_clusters(begun.component),  # type: ignore[arg-type]
        store,
        queries,
        tmp_path / "fit",
        FitSettings(lr=1e-2, epochs=3, patience=9),
        about={},
    )
    after = at_tau(
        further.component, further.component.tau, queries.lm_logprob, states, queries.targets
    )
    assert after.ppl <= begun.ppl
    assert further.fitted.valid_loss == pytest.approx(np.log(after.ppl), abs=1e-4)


def test_the_best_temperature_is_found_beyond_a_plateau() -> None:
    """Far from the best τ the component is useless, λ is zero and nothing changes with τ."""
    rng = np.random.default_rng(1)
    weight = torch.from_numpy(rng.standard_normal((50, 8)).astype(np.float32))
    made = new_head("att", weight, torch.ones(50, dtype=torch.int64), "ip", 1.0)
    states = 300 * rng.standard_normal((3000, 8)).astype(np.float32)
    p = made._replace(tau=600.0).logprobs(torch.from_numpy(states)).exp().double().numpy()
    targets = np.array([rng.choice(50, p=row / row.sum()) for row in p])
    lm = np.full(3000, -np.log(50) + 0.1)
    found = at_best_tau(made, lm, states, targets)
    assert found.component.tau == pytest.approx(600, rel=0.5)
    assert found.ppl < 0.98 * perplexity(lm)


@pytest.mark.parametrize("truth", [0.02, 0.7, 1.0, 30.0])
def test_the_best_temperature_is_found_wherever_it_is(truth: float) -> None:
    rng = np.random.default_rng(0)
    weight = torch.from_numpy(rng.standard_normal((20, 8)).astype(np.float32))
    made = new_head("att", weight, torch.ones(20, dtype=torch.int64), "ip", 1.0)
    states = rng.standard_normal((4000, 8)).astype(np.float32) * truth**0.5
    p = made._replace(tau=truth).logprobs(torch.from_numpy(states)).exp().double().numpy()
    targets = np.array([rng.choice(20, p=row / row.sum()) for row in p])
    lm = np.full(4000, -np.log(20))
    found = at_best_tau(made, lm, states, targets)
    assert found.component.tau == pytest.approx(truth, rel=0.35)
    logs = found.component.target_logprobs(states, targets)
    lam = fit_lambda(lm, logs)
    assert found.ppl == pytest.approx(perplexity(mix(lm, logs, lam)))
    assert found.ppl <= at_tau(made, 1.0, lm, states, targets).ppl


@pytest.mark.parametrize("rows", [1500, 3000])  # all rows on the wide grid, and some of them
def test_a_temperature_is_looked_at_once_for_all_lms(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    weight = torch.from_numpy(rng.standard_normal((20, 8)).astype(np.float32))
    made = new_head("att", weight, torch.ones(20, dtype=torch.int64), "ip", 1.0)
    states, targets = rng.standard_normal((rows, 8)).astype(np.float32), rng.integers(0, 20, rows)
    real, looked = Head.target_logprobs, []

    def counted(self: Head, states: Any, targets: Any) -> Any:
        looked.append((self.tau, len(targets)))
        return real(self, states, targets)

    monkeypatch.setattr(Head, "target_logprobs", counted)
    lm = np.full(rows, -np.log(20))
    first, second = at_best_taus(made, [lm, lm], states, targets)
    assert first.ppl == second.ppl
    assert len(looked) == len(set(looked))
