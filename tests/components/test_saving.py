"""A component written and read again is the same, whatever its kind; anything else is refused."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from knnlm.components import Component, LearnedComponent, Mixture, QueryArrays
from knnlm.components.base import Loader, SavedState, ScoredTokens, TargetScores
from knnlm.components.head import Head
from knnlm.components.saving import COMPONENTS, StateLoader, load_component
from knnlm.datastore import Entries
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.tensors import save_tensors
from tests.components.examples import EntriesInMemory, every_learned

V, D = 7, 4


def kind_of(component: Component) -> str:
    return component.kind


@pytest.mark.parametrize("component", every_learned(V, D), ids=kind_of)
def test_what_is_read_is_what_was_written(component: Component, tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    component.save(file, {"model": "m", "lambda": 0.25})
    component_again, about = load_component(file)
    assert about == {"model": "m", "lambda": 0.25}
    assert type(component_again) is type(component)
    states = torch.randn(3, D * len(component.keys))
    assert torch.equal(component_again.logprobs(states), component.logprobs(states))
    assert component_again.keys == component.keys


def test_every_learned_kind_can_be_saved() -> None:
    assert {kind_of(c) for c in every_learned()} == COMPONENTS.keys() - {"knn", "full-datastore"}


@pytest.mark.parametrize("component", every_learned(V, D), ids=kind_of)
def test_every_kind_sums_to_one_and_agrees_with_itself(component: Component) -> None:
    states = torch.randn(6, D * len(component.keys))
    logs = component.logprobs(states)
    assert torch.allclose(logs.exp().sum(1), torch.ones(6), atol=1e-5)
    targets = np.array([6, 1, 2, 3, 6, 1], np.int32)
    one = component.target_logprobs(QueryArrays(states.numpy(), targets))
    assert np.allclose(one, logs[np.arange(6), targets].numpy(), atol=1e-4)
    assert component.multiplications is not None
    assert component.multiplications > 0


def test_parts_together_are_the_mixture_of_each_on_its_own_states() -> None:
    mixed = every_learned(V, D)[-1]
    assert isinstance(mixed, Mixture)
    assert mixed.keys == ("att", "ffn")
    att, ffn = torch.randn(6, D), torch.randn(6, D)
    states = {("att",): att, ("ffn",): ffn, ("att", "ffn"): torch.cat([att, ffn], 1)}
    dense = torch.zeros(6, V, dtype=torch.float64)
    for part, weight in zip(mixed.parts, mixed.weights, strict=True):
        dense += weight * part.logprobs(states[part.keys]).double().exp()
    both = states["att", "ffn"]
    assert torch.allclose(mixed.logprobs(both).double().exp(), dense, atol=1e-6)
    targets = torch.randint(0, V, (6,))
    assert np.allclose(
        mixed.target_logprobs(QueryArrays(both.numpy(), targets.numpy().astype(np.int32))),
        mixed.logprobs(both)[np.arange(6), targets].numpy(),
        atol=1e-5,
    )
    each = [part.multiplications for part in mixed.parts]
    assert mixed.multiplications == sum(count for count in each if count is not None)


def test_a_part_of_no_weight_changes_nothing() -> None:
    head, _, mlp, _, _ = every_learned(V, D)
    mixed, states = Mixture((head, mlp), (0.0, 1.0)), torch.randn(4, 2 * D)
    assert torch.allclose(mixed.logprobs(states), mlp.logprobs(states), atol=1e-6)
    asked = QueryArrays(states.numpy(), np.array([0, 1, 2, 6], np.int32))
    assert np.allclose(mixed.target_logprobs(asked), mlp.target_logprobs(asked), atol=1e-6)


@pytest.mark.parametrize("component", every_learned(V, D)[:-1], ids=kind_of)
def test_a_high_temperature_flattens(component: Component) -> None:
    states = torch.randn(5, D * len(component.keys))
    flat = component.at_temperature(1e6).logprobs(states)
    assert torch.allclose(flat, flat[:1], atol=1e-3)  # the same for every state


# embeddings of a vocabulary entry cannot be counted there
@pytest.mark.parametrize("component", every_learned(V, D)[1:3], ids=kind_of)
def test_a_component_computes_where_its_tensors_are(component: Component) -> None:
    elsewhere = component.to(torch.device("meta"))
    logs = elsewhere.logprobs(torch.zeros(2, D * len(component.keys), device="meta"))
    assert logs.device.type == "meta"


def test_a_mixture_moves_all_of_its_parts() -> None:
    moved = every_learned(V, D)[-1].to(torch.device("meta"))
    assert isinstance(moved, Mixture)
    for part in moved.parts:
        assert isinstance(part, LearnedComponent)
        assert {t.device.type for t in part.tensors().values()} == {"meta"}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    nothing: dict[str, object] = {"fields": {}, "about": {}}
    save_tensors(file, {"weight": torch.zeros(1)}, {"kind": "poodle", **nothing})
    with pytest.raises(UsageError, match="unknown kind of component 'poodle'"):
        load_component(file)
    save_tensors(file, {"weight": torch.zeros(1)}, {"kind": "head", **nothing})
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(file)
    good = Head(("att",), torch.zeros(4, 2), torch.full((2,), 2), "ip", 1.0)
    bad = dataclasses.replace(good, counts=torch.ones(3, dtype=torch.int64))
    bad.save(file)
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DamagedError, match="damaged"):
        load_component(file)


def test_parts_of_different_vocabularies_are_refused(tmp_path: Path) -> None:
    mixed = Mixture((every_learned(V, D)[0], every_learned(V + 1, D)[0]), (0.5, 0.5))
    mixed.save(tmp_path / "one.safetensors")
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(tmp_path / "one.safetensors")


@pytest.mark.parametrize("kind", ["knn", "full-datastore"])
def test_what_retrieves_needs_its_datastore(kind: str) -> None:
    with pytest.raises(KnnlmError, match=f"a {kind} component needs its datastore: open it"):
        StateLoader().component(SavedState(kind, {}, {}))


def test_a_component_of_somebody_elses_is_not_loaded_under_its_name(tmp_path: Path) -> None:
    class Foreign(Component):
        kind = "foreign"
        vocab_size = 1
        multiplications = None

        def logprobs(self, states: torch.Tensor) -> torch.Tensor:
            return states

        def target_scores(self, queries: object) -> TargetScores:
            raise NotImplementedError

        def at_temperature(self, tau: float) -> "Foreign":
            return self

        def saved_state(self) -> SavedState:
            return SavedState(self.kind, {"one": torch.ones(1)}, {})

        @classmethod
        def from_saved_state(cls, state: SavedState, loader: Loader) -> "Foreign":
            return cls()

    Foreign().save(tmp_path / "foreign.safetensors")
    with pytest.raises(UsageError, match="unknown kind of component 'foreign'"):
        load_component(tmp_path / "foreign.safetensors")
    states = torch.tensor([[-1.0, -2.0]])
    scored = Foreign().score_tokens(states, torch.tensor([1]))
    assert scored == ScoredTokens(np.array([-2.0]), None)


def test_a_head_without_an_embedding_for_a_token_is_refused(tmp_path: Path) -> None:
    head = Head(("att",), torch.zeros(3, D), torch.tensor([3, 0]), "ip", 1.0)
    head.save(tmp_path / "one.safetensors")
    with pytest.raises(DamagedError, match="do not make a component"):
        load_component(tmp_path / "one.safetensors")


ODD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one row less": lambda tensor: tensor[1:],
    "one axis more": lambda tensor: tensor[None],
    "a single number": lambda tensor: tensor.flatten()[:1],
    "empty": lambda tensor: tensor[:0],
    "not finite": lambda tensor: torch.full(tensor.shape, torch.nan),
    "infinite": lambda tensor: torch.full(tensor.shape, torch.inf),
    "huge": lambda tensor: torch.full(tensor.shape, 2**62),
    "negative": lambda tensor: torch.full(tensor.shape, -3),
    "truth values": lambda tensor: torch.ones(tensor.shape, dtype=torch.bool),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("component", every_learned(V, D)[:-1], ids=kind_of)
def test_tensors_that_do_not_fit_are_refused(
    component: LearnedComponent, odd: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    kind, tensors, fields = component.saved_state()
    file, note = tmp_path / "one.safetensors", {"kind": kind, "fields": fields, "about": {}}
    for name, tensor in tensors.items():
        if name in ("embedding", "counts") and len(odd(tensor)) == V - 1:
            continue  # that is a component of a smaller vocabulary
        save_tensors(file, {**tensors, name: odd(tensor)}, note)
        with pytest.raises(DamagedError, match="do not make a component"):
            load_component(file)


@pytest.mark.parametrize("component", every_learned(V, D)[:-1], ids=kind_of)
def test_a_component_that_does_not_fit_the_datastore_is_refused(
    component: LearnedComponent, tmp_path: Path
) -> None:
    file = tmp_path / "one.safetensors"
    component.save(file)
    tokens, both = np.zeros(2, np.int32), ("att", "ffn")

    def entries(width: int, vocabulary: int) -> Entries:
        made = EntriesInMemory(np.zeros((2, width), np.float32), tokens, vocabulary)
        made.columns.update(dict.fromkeys(both, made.columns["att"]))
        made.meta["keys"] = list(both)
        return made

    load_component(file, entries(D, V))
    for width, vocabulary in ((D + 1, V), (D, V + 1)):
        with pytest.raises(DamagedError, match=r"do not make a component \(the (width|vocabulary)"):
            load_component(file, entries(width, vocabulary))


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.5, -0.5], [1.0], [0.2, 0.3, 0.5], []])
def test_weights_that_are_no_shares_are_refused(weights: list[float], tmp_path: Path) -> None:
    head, softmaxes, *_ = every_learned(V, D)
    kind, tensors, fields = Mixture((head, softmaxes), (0.5, 0.5)).saved_state()
    file = tmp_path / "one.safetensors"
    note = {"kind": kind, "fields": {**fields, "weights": weights}, "about": {}}
    save_tensors(file, tensors, note)
    with pytest.raises(DamagedError, match=r"do not make a component \(fields.weights"):
        load_component(file)


def test_a_mixture_inside_a_mixture_is_refused(tmp_path: Path) -> None:
    fields: dict[str, object] = {"weights": [], "parts": []}
    for _ in range(300):
        fields = {"weights": [1.0], "parts": [{"kind": "mixture", "fields": fields}]}
    file = tmp_path / "one.safetensors"
    note = {"kind": "mixture", "fields": fields, "about": {}}
    save_tensors(file, {"weight": torch.zeros(1)}, note)
    with pytest.raises(DamagedError, match="is a mixture itself"):
        load_component(file)


def test_a_note_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    data = safetensors.torch.save({"x": torch.zeros(1)}, {"note": "[" * 100_000 + "]" * 100_000})
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=r"one\.safetensors is damaged"):
        load_component(file)
