"""A component written and read again is the same, whatever its kind; anything else is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.components.clusters import Clusters, word_shares
from knnlm.components.head import new_head
from knnlm.components.mixture import Mixture
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP
from knnlm.components.saving import Component, kind_of, load_component, on_device, save_component
from knnlm.components.single import Single
from knnlm.errors import DamagedError, KnnlmError
from knnlm.tensors import save_tensors

V, D, R = 7, 4, 2


def every_kind() -> list[Component]:
    g = torch.Generator().manual_seed(0)

    def t(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=g)

    shares = word_shares(np.array([0, 1, 2, 2]), np.array([6, 1, 2, 3]), 3, V)
    singles: list[Single] = [
        new_head("att", t(2 * V, D), torch.full((V,), 2), "l2", 1.3),
        MixtureOfSoftmaxes(("ffn",), t(V, D), t(R, D, D), t(R, D), t(R, D), t(R), 0.7),
        MLP(("att", "ffn"), t(V, D), t(D, 2 * D), t(5, 2 * D), t(5), t(D, 5), 1.1),
        Clusters(("att",), t(3, D), t(3), *shares, "l2", 2.0),
    ]
    return [*singles, Mixture((singles[3], singles[1], singles[2]), (0.5, 0.2, 0.3))]


@pytest.mark.parametrize("component", every_kind(), ids=kind_of)
def test_what_is_read_is_what_was_written(component: Component, tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    save_component(file, component, {"model": "m", "lambda": 0.25})
    component_again, about = load_component(file)
    assert about == {"model": "m", "lambda": 0.25}
    assert type(component_again) is type(component)
    states = torch.randn(3, D * len(component.keys))
    assert torch.equal(component_again.logprobs(states), component.logprobs(states))
    assert component_again.keys == component.keys


@pytest.mark.parametrize("component", every_kind(), ids=kind_of)
def test_every_kind_sums_to_one_and_agrees_with_itself(component: Component) -> None:
    states = torch.randn(6, D * len(component.keys))
    logs = component.logprobs(states)
    assert torch.allclose(logs.exp().sum(1), torch.ones(6), atol=1e-5)
    targets = np.array([6, 1, 2, 3, 6, 1])
    one = component.target_logprobs(states.numpy(), targets)
    assert np.allclose(one, logs[np.arange(6), targets].numpy(), atol=1e-4)
    assert component.multiplications > 0


def test_parts_together_are_the_mixture_of_each_on_its_own_states() -> None:
    mixed = every_kind()[-1]
    assert isinstance(mixed, Mixture)
    assert (mixed.keys, mixed.width) == (("att", "ffn"), 2 * D)
    att, ffn = torch.randn(6, D), torch.randn(6, D)
    states = {("att",): att, ("ffn",): ffn, ("att", "ffn"): torch.cat([att, ffn], 1)}
    dense = sum(
        s * p.logprobs(states[p.keys]).double().exp()
        for p, s in zip(mixed.parts, mixed.shares, strict=True)
    )
    both = states["att", "ffn"]
    assert torch.allclose(mixed.logprobs(both).double().exp(), dense, atol=1e-6)  # type: ignore[arg-type]
    targets = torch.randint(0, V, (6,))
    assert np.allclose(
        mixed.target_logprobs(both.numpy(), targets.numpy()),
        mixed.logprobs(both)[np.arange(6), targets].numpy(),
        atol=1e-5,
    )
    assert mixed.multiplications == sum(p.multiplications for p in mixed.parts)


@pytest.mark.parametrize("component", every_kind()[:-1], ids=kind_of)
def test_a_high_temperature_flattens(component: Single) -> None:
    states = torch.randn(5, D * len(component.keys))
    flat = component._replace(tau=1e6).logprobs(states)
    assert torch.allclose(flat, flat[:1], atol=1e-3)  # the same for every state


@pytest.mark.parametrize(
    "component", every_kind()[1:3], ids=kind_of
)  # rows of a word cannot be counted there
def test_a_component_computes_where_its_tensors_are(component: Component) -> None:
    elsewhere = on_device(component, torch.device("meta"))
    found = elsewhere.logprobs(torch.zeros(2, D * len(component.keys), device="meta"))
    assert found.device.type == "meta"


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    save_tensors(file, {"weight": torch.zeros(1)}, {"kind": "poodle"})
    with pytest.raises(KnnlmError, match="unknown kind of component 'poodle'"):
        load_component(file)
    save_tensors(
        file, {"weight": torch.zeros(1)}, {"kind": "embeddings", "fields": {}, "about": {}}
    )
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(file)
    good = new_head("att", torch.zeros(4, 2), torch.full((2,), 2), "ip")
    save_component(file, good._replace(counts=torch.ones(3, dtype=torch.int64)), {})
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DamagedError, match="damaged"):
        load_component(file)
