"""The MLP over several hidden states: its formula, its start as the LM, its gradients."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import erf

from knnlm.components import QueryArrays
from knnlm.components.mlp import MLP
from knnlm.equation import softmax

V, D, U = 9, 4, 6


def random_mlp(seed: int = 0) -> MLP:
    torch.manual_seed(seed)
    return MLP(
        ("att", "ffn"),
        torch.randn(V, D),
        torch.randn(D, 2 * D),
        torch.randn(U, 2 * D),
        torch.randn(U),
        torch.randn(D, U),
    )


def test_it_is_its_formula() -> None:
    mlp = random_mlp()
    x = np.random.default_rng(1).standard_normal((5, 2 * D)).astype(np.float32)
    e, a, h, b, o = (t.double().numpy() for t in mlp.tensors().values())
    parts = x.astype(np.float64).reshape(5, 2, D)
    normed = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    z = normed.reshape(5, 2 * D) @ h.T + b
    truth = softmax((x @ a.T + (z * (1 + erf(z / np.sqrt(2))) / 2) @ o.T) @ e.T)
    assert np.allclose(mlp.logprobs(torch.from_numpy(x)).exp().numpy(), truth, atol=1e-5)
    targets = np.array([0, 3, 8, 8, 1], np.int32)
    logs = mlp.target_logprobs(QueryArrays(x, targets))
    assert np.allclose(logs, np.log(truth)[np.arange(5), targets], atol=1e-4)


def test_it_can_start_as_the_lm() -> None:
    mlp = random_mlp()
    select = torch.cat([torch.zeros(D, D), torch.eye(D)], dim=1)
    start = dataclasses.replace(mlp, direct=select, outer=torch.zeros(D, U))
    att, ffn = torch.randn(3, D), torch.randn(3, D)
    truth = (ffn @ mlp.embedding.T).log_softmax(1)
    assert torch.allclose(start.logprobs(torch.cat([att, ffn], dim=1)), truth, atol=1e-6)


def test_gradients_are_right() -> None:
    mlp = random_mlp(2)
    x, targets = torch.randn(4, 2 * D, dtype=torch.float64), torch.tensor([0, 1, 8, 8])

    def loss(*parts: torch.Tensor) -> torch.Tensor:
        tensors: dict[str, Any] = dict(zip(mlp.tensors(), parts, strict=True))
        return replace(mlp, **tensors).target_losses(x, targets).sum()

    assert torch.autograd.gradcheck(
        loss, tuple(p.double().requires_grad_() for p in mlp.tensors().values())
    )
