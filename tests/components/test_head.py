"""A learned head: the dense equation without a mask, in log space; one embedding for each
vocabulary entry is a softmax layer."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.components import QueryArrays
from knnlm.components.head import Head, row_scores, softmax_losses, sum_by_token
from knnlm.equation import p_knn, similarity
from knnlm.errors import UsageError

Metric = Literal["l2", "ip"]


def random_head(
    rng: np.random.Generator, vocab_size: int, width: int, most: int, metric: Metric, tau: float
) -> Head:
    counts = torch.from_numpy(rng.integers(1, most + 1, vocab_size))
    weight = torch.from_numpy(rng.standard_normal((int(counts.sum()), width)).astype(np.float32))
    return Head(("att",), weight, counts, metric, tau)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from(["l2", "ip"]),
    st.sampled_from([0.2, 1.0, 5.0]),
)
def test_it_is_the_equation_with_every_embedding_voting(
    seed: int, vocab_size: int, width: int, most: int, metric: Metric, tau: float
) -> None:
    rng = np.random.default_rng(seed)
    component = random_head(rng, vocab_size, width, most, metric, tau)
    states = rng.standard_normal((5, width))
    tokens = np.repeat(np.arange(vocab_size), component.counts.numpy())
    scores = similarity(component.weight.double().numpy(), states, metric)
    truth = np.log(p_knn(scores, tokens, vocab_size, len(tokens), tau))
    logs = component.logprobs(torch.from_numpy(states)).double().numpy()
    assert np.allclose(logs, truth, atol=2e-4)
    assert np.allclose(np.exp(logs).sum(1), 1, atol=1e-5)
    targets = rng.integers(0, vocab_size, 5).astype(np.int32)
    of_targets = component.target_logprobs(QueryArrays(states, targets))
    assert np.allclose(of_targets, truth[np.arange(5), targets], atol=2e-4)


def test_one_embedding_a_token_with_the_output_embedding_is_the_lm() -> None:
    torch.manual_seed(0)
    w_sm, h = torch.randn(50, 8), torch.randn(20, 8)
    component = Head(("ffn",), w_sm, torch.ones(50, dtype=torch.int64), "ip", 1.0)
    assert torch.allclose(component.logprobs(h), (h @ w_sm.T).log_softmax(1), atol=1e-5)


def test_copies_of_every_embedding_change_nothing() -> None:
    rng = np.random.default_rng(1)
    one = random_head(rng, 7, 5, 1, "l2", 1.3)
    three = Head(("att",), one.weight.repeat_interleave(3, 0), 3 * one.counts, "l2", 1.3)
    h = torch.from_numpy(rng.standard_normal((4, 5)).astype(np.float32))
    assert torch.allclose(one.logprobs(h), three.logprobs(h), atol=1e-5)


def test_tokens_far_below_keep_their_probability_in_log_space() -> None:
    counts = torch.tensor([2, 1])
    component = Head(("att",), torch.tensor([[0.0], [0.0], [-500.0]]), counts, "ip", 1.0)
    logs = component.logprobs(torch.tensor([[1.0]]))
    assert logs[0, 1].item() == pytest.approx(-500 - np.log(2), rel=1e-6)


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("most", [1, 3])
def test_gradients_are_those_of_the_dense_equation(metric: Metric, most: int) -> None:
    rng = np.random.default_rng(2)
    component = random_head(rng, 5, 4, most, metric, 1.0)
    targets = torch.from_numpy(rng.integers(0, 5, 6))
    h = torch.from_numpy(rng.standard_normal((6, 4)))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return softmax_losses(row_scores(weight, h, metric, 0.7), targets, component.counts).sum()

    assert torch.autograd.gradcheck(loss, component.weight.double().requires_grad_())
    scores = row_scores(component.weight.double(), h, metric, 0.7)
    dense = sum_by_token(scores, component.counts) - scores.logsumexp(1, keepdim=True)
    assert torch.allclose(-dense.gather(1, targets[:, None]).sum(), loss(component.weight.double()))


def test_a_temperature_that_is_not_positive_is_refused() -> None:
    head = Head(("att",), torch.zeros(2, 2), torch.tensor([1, 1]), "ip", 1.0)
    with pytest.raises(UsageError, match="temperature"):
        head.at_temperature(0.0)
