"""What every component promises, whatever it computes inside."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from knnlm.components import Component, LearnedComponent, Mixture, QueryArrays
from knnlm.components.base import SavedState
from knnlm.components.saving import StateLoader, load_component
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from tests.components.examples import SIBLINGS, Make

TAU = 2.5


@pytest.fixture(params=SIBLINGS)
def make(request: pytest.FixtureRequest) -> Make:
    return SIBLINGS[request.param]


@pytest.fixture
def component(make: Make, store: Entries, index: str) -> Component:
    return make(store, index, TAU)


def some_states(component: Component, valid: Entries, count: int = 6) -> torch.Tensor:
    return torch.from_numpy(valid.states(component.keys)[:count].astype(np.float32))


def asked(states: torch.Tensor, targets: NDArray[np.integer]) -> QueryArrays:
    return QueryArrays(states.numpy(), targets.astype(np.int32))


def test_probabilities_sum_to_one(component: Component, valid: Entries) -> None:
    logs = component.logprobs(some_states(component, valid))
    assert logs.shape == (6, component.vocab_size)
    assert not torch.isnan(logs).any()
    assert_allclose(logs.double().exp().sum(1), 1, atol=1e-5)


def test_every_token_gets_its_entry_of_the_vocabulary(component: Component, valid: Entries) -> None:
    """So no target was looked at: over all of them the answers sum to one."""
    v, states = component.vocab_size, some_states(component, valid)
    every = asked(states.repeat_interleave(v, 0), np.tile(np.arange(v), len(states)))
    logs = component.target_logprobs(every).reshape(len(states), v)
    whole = component.logprobs(states).double().numpy()
    assert np.array_equal(np.isneginf(logs), np.isneginf(whole))
    assert_allclose(logs, whole, rtol=1e-4, atol=1e-4)
    assert_allclose(np.exp(logs).sum(1), 1, atol=1e-4)


def test_one_targets_answer_does_not_depend_on_the_others(
    component: Component, valid: Entries
) -> None:
    states, targets = some_states(component, valid), valid.targets[:6].copy()
    before = component.target_logprobs(asked(states, targets))
    targets[3:] = (targets[3:] + 1) % component.vocab_size
    assert_allclose(component.target_logprobs(asked(states, targets))[:3], before[:3], atol=1e-6)


def test_a_text_on_disk_and_in_memory_get_the_same_numbers(
    component: Component, valid: Entries
) -> None:
    in_memory = QueryArrays(valid.states(component.keys), valid.targets)
    assert_allclose(
        component.target_logprobs(valid), component.target_logprobs(in_memory), atol=1e-5
    )


def test_another_temperature_is_the_component_made_with_it(
    make: Make, component: Component, store: Entries, index: str, valid: Entries
) -> None:
    states = some_states(component, valid)
    if isinstance(component, Mixture):
        assert component.at_temperature(component.tau) is component
        with pytest.raises(UsageError, match="has no temperature: each part has its own"):
            component.at_temperature(0.4)
        return
    other, wanted = component.at_temperature(0.4), make(store, index, 0.4)
    assert (component.tau, other.tau) == (TAU, 0.4)
    assert torch.equal(other.logprobs(states), wanted.logprobs(states))
    assert not torch.equal(other.logprobs(states), component.logprobs(states))
    assert np.array_equal(other.target_logprobs(valid), wanted.target_logprobs(valid))
    assert np.array_equal(
        other.target_logprobs(valid), component.target_scores(valid).logprobs(0.4)
    )


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf"), 5e-324, 1e300])
def test_a_temperature_out_of_range_is_refused(component: Component, tau: float) -> None:
    sentence = "temperature .* out of range: choose a number above 0"
    if isinstance(component, Mixture):
        sentence = "has no temperature"
    with pytest.raises(UsageError, match=sentence):
        component.at_temperature(tau)


def test_tokens_are_scored_as_the_vocabulary_is(component: Component, valid: Entries) -> None:
    states = some_states(component, valid)
    targets = torch.from_numpy(valid.targets[:6].astype(np.int64))
    logs, neighbors = component.score_tokens(states, targets)
    wanted = component.logprobs(states).double()[np.arange(6), targets].numpy()
    assert np.array_equal(np.isneginf(logs), np.isneginf(wanted))
    assert_allclose(logs, wanted, rtol=1e-4, atol=1e-4)
    assert (neighbors is None) == (component.retrieval is None)
    if neighbors is not None and component.retrieval is not None:
        assert neighbors.ids.shape == (6, component.retrieval.k)


def test_several_temperatures_at_once_are_those_one_by_one(
    component: Component, valid: Entries
) -> None:
    scores, taus = component.target_scores(valid), [0.5, 2.0, 30.0]
    together = scores.several(taus)
    assert len(together) == 3
    for tau, logs in zip(taus, together, strict=True):
        assert_allclose(logs, scores.logprobs(tau), rtol=1e-6, atol=1e-6)
    assert scores.unit > 0
    assert scores.has_temperature != isinstance(component, Mixture)


def test_a_sample_of_queries_gets_what_all_of_them_get(
    component: Component, valid: Entries
) -> None:
    scores, rows = component.target_scores(valid), np.array([0, 5, 17, 18])
    assert_allclose(scores.sample(rows).logprobs(TAU), scores.logprobs(TAU)[rows], atol=1e-5)


def test_it_says_which_states_it_reads_and_how_much_it_computes(
    component: Component, store: Entries, valid: Entries
) -> None:
    assert set(component.keys) <= set(store.keys)
    assert len(set(component.keys)) == len(component.keys)
    assert component.vocab_size == store.vocab_size
    if component.retrieval is None or component.retrieval.exact:
        assert component.multiplications is not None
        assert component.multiplications > 0
    else:
        assert component.multiplications is None
    share = component.recall(valid)
    assert share is None if component.retrieval is None else 0.5 < (share or 0) <= 1
    component.prepare()


def test_taken_apart_and_put_together_it_is_the_same(
    component: Component, store: Entries, valid: Entries, tmp_path: Path
) -> None:
    kind, tensors, fields = component.saved_state()
    assert kind == component.kind
    through_json = SavedState(kind, tensors, json.loads(json.dumps(fields)))
    component.save(tmp_path / "one.safetensors", {"note": 1})
    saved = load_component(tmp_path / "one.safetensors", store)
    assert saved.about == {"note": 1}
    states = some_states(component, valid)
    for again in (StateLoader(store).component(through_json), saved.component):
        assert type(again) is type(component)
        assert (again.keys, again.tau) == (component.keys, component.tau)
        assert again.retrieval == component.retrieval
        assert torch.equal(again.logprobs(states), component.logprobs(states))


def test_on_a_device_it_is_the_same(component: Component, valid: Entries) -> None:
    there, states = component.to(torch.device("cpu")), some_states(component, valid)
    assert type(there) is type(component)
    assert torch.equal(there.logprobs(states), component.logprobs(states))
    if isinstance(component, LearnedComponent) and isinstance(there, LearnedComponent):
        assert there.tensors().keys() == component.tensors().keys()
