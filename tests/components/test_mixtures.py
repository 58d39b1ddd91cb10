"""Mixtures of softmaxes and clusters: both against their formulas written out in float64."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.components import QueryArrays
from knnlm.components.clusters import Clusters, token_shares
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.equation import p_knn, similarity, softmax

Metric = Literal["l2", "ip"]


def random_softmaxes(rng: np.random.Generator, r: int, v: int, d: int) -> MixtureOfSoftmaxes:
    def t(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    return MixtureOfSoftmaxes(("ffn",), t(v, d), t(r, d, d), t(r, d), t(r, d), t(r))


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.integers(1, 5))
def test_softmaxes_are_their_formula(seed: int, r: int, v: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    m = random_softmaxes(rng, r, v, d)
    h = rng.standard_normal((6, d)).astype(np.float32)
    e, a, b, g, c = (x.double().numpy() for x in m.tensors().values())
    share = softmax(h @ g.T + c)
    truth = sum(share[:, i, None] * softmax((h @ a[i].T + b[i]) @ e.T) for i in range(r))
    logs = m.logprobs(torch.from_numpy(h)).double().numpy()
    assert np.allclose(np.exp(logs), truth, atol=1e-5)
    targets = rng.integers(0, v, 6).astype(np.int32)
    of_targets = m.target_logprobs(QueryArrays(h, targets))
    assert np.allclose(of_targets, np.log(truth)[np.arange(6), targets], atol=1e-4)


def test_equal_projections_that_change_nothing_are_one_softmax() -> None:
    torch.manual_seed(0)
    e, h = torch.randn(11, 4), torch.randn(5, 4)
    projections = torch.eye(4).expand(3, 4, 4)
    m = MixtureOfSoftmaxes(
        ("ffn",), e, projections, torch.zeros(3, 4), torch.randn(3, 4), torch.zeros(3)
    )
    assert torch.allclose(m.logprobs(h), (h @ e.T).log_softmax(1), atol=1e-5)


def test_gradients_of_softmaxes_are_right() -> None:
    m = random_softmaxes(np.random.default_rng(3), 2, 5, 3)
    h, targets = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2])

    def loss(*parts: torch.Tensor) -> torch.Tensor:
        tensors: dict[str, Any] = dict(zip(m.tensors(), parts, strict=True))
        changed = replace(m, **tensors)
        return changed.target_losses(h, targets).sum()

    assert torch.autograd.gradcheck(
        loss, tuple(p.double().requires_grad_() for p in m.tensors().values())
    )


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 8),
    st.integers(1, 9),
    st.sampled_from(["l2", "ip"]),
    st.sampled_from([0.3, 1.0, 4.0]),
)
def test_clusters_are_their_formula(
    seed: int, clusters: int, vocab_size: int, metric: Metric, tau: float
) -> None:
    rng = np.random.default_rng(seed)
    entries = 40
    cluster_of, tokens = rng.integers(0, clusters, entries), rng.integers(0, vocab_size, entries)
    centroids = rng.standard_normal((clusters, 3)).astype(np.float32)
    bias = rng.standard_normal(clusters).astype(np.float32)
    component = Clusters(
        ("att",),
        torch.from_numpy(centroids),
        torch.from_numpy(bias),
        *token_shares(cluster_of, tokens, clusters, vocab_size),
        metric,
        tau,
    )
    h = rng.standard_normal((5, 3)).astype(np.float32)
    m = np.zeros((vocab_size, clusters))
    for c, w in zip(cluster_of, tokens, strict=True):
        m[w, c] += 1 / (cluster_of == c).sum()
    scores = similarity(centroids.astype(np.float64), h.astype(np.float64), metric)
    truth = softmax((scores + bias) / tau) @ m.T
    assert np.allclose(component.logprobs(torch.from_numpy(h)).exp().numpy(), truth, atol=1e-5)
    targets = rng.integers(0, vocab_size, 5).astype(np.int32)
    with np.errstate(divide="ignore"):
        wanted = np.log(truth)[np.arange(5), targets]
    logs = component.target_logprobs(QueryArrays(h, targets))
    assert np.array_equal(np.isneginf(logs), np.isneginf(wanted))
    assert np.allclose(logs[np.isfinite(logs)], wanted[np.isfinite(wanted)], atol=1e-4)


def test_a_cluster_for_every_entry_is_the_datastore_without_a_mask() -> None:
    rng = np.random.default_rng(5)
    keys, tokens = rng.standard_normal((12, 4)).astype(np.float32), rng.integers(0, 6, 12)
    component = Clusters(
        ("att",),
        torch.from_numpy(keys),
        torch.zeros(12),
        *token_shares(np.arange(12), tokens, 12, 6),
        "l2",
        1.0,
    )
    h = rng.standard_normal((3, 4)).astype(np.float32)
    truth = p_knn(
        similarity(keys.astype(np.float64), h.astype(np.float64), "l2"), tokens, 6, 12, 1.0
    )
    assert np.allclose(component.logprobs(torch.from_numpy(h)).exp().numpy(), truth, atol=1e-5)


def test_an_empty_cluster_and_an_absent_token_have_no_share() -> None:
    shares = token_shares(np.array([0, 0]), np.array([1, 1]), clusters=2, vocab_size=3)
    assert [t.tolist() for t in shares] == [[0], [0.0], [0, 1, 0]]
    component = Clusters(("att",), torch.zeros(2, 1), torch.zeros(2), *shares, "ip", 1.0)
    both = QueryArrays(np.zeros((2, 1)), np.array([0, 1], np.int32))
    assert component.target_logprobs(both).tolist() == [-np.inf, pytest.approx(np.log(0.5))]


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_gradients_of_clusters_are_right(metric: Metric) -> None:
    rng = np.random.default_rng(4)
    votes = token_shares(rng.integers(0, 4, 30), rng.integers(0, 5, 30), 4, 5)
    h, targets = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2, 1, 3])

    def loss(centroids: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (
            Clusters(("att",), centroids, bias, *votes, metric, 0.8).target_losses(h, targets).sum()
        )

    parts = (torch.randn(4, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64))
    assert torch.autograd.gradcheck(loss, tuple(p.requires_grad_() for p in parts))
