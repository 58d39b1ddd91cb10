"""Datastores made from datastores: entries, targets and states are what was asked for."""

import numpy as np
import pytest
import torch

import knnlm.experiments.derive as module
from knnlm.datastore.entries import Entries
from knnlm.experiments.derive import derive, normalized, principal_components, subsample


def test_a_part_of_a_datastore_keeps_states_and_tokens_together(store: Entries) -> None:
    ids = subsample(store.count, 0.3, draw=1)
    part = derive(store, store.path.parent / "part", ("att",), {"fraction": 0.3}, ids=ids)
    assert part.count == len(ids) == round(0.3 * store.count)
    assert np.array_equal(part.targets, store.targets[ids])
    assert np.array_equal(part.key("att").all(), store.key("att").gather(ids))


def test_draws_are_different_parts_and_each_is_repeatable() -> None:
    a, b = subsample(1000, 0.1, 0), subsample(1000, 0.1, 1)
    assert len(np.intersect1d(a, b)) < 50
    assert np.array_equal(a, subsample(1000, 0.1, 0))
    assert len(np.unique(a)) == 100


def test_an_interrupted_derivation_resumes(store: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 100)
    calls = []

    def fails_later(states: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return normalized(states)

    out = store.path.parent / "normed"
    with pytest.raises(KeyboardInterrupt):
        derive(store, out, ("ffn",), {"change": "LayerNorm"}, change=fails_later)
    resumed = derive(store, out, ("ffn",), {"change": "LayerNorm"}, change=normalized)
    whole = normalized(store.key("ffn").all().astype(np.float32)).astype(np.float16)
    assert np.array_equal(resumed.key("ffn").all(), whole)


def test_normalizing_is_a_layer_norm_without_gain_or_bias(store: Entries) -> None:
    states = torch.from_numpy(store.key("ffn").read(0, 50).astype(np.float32))
    truth = torch.nn.functional.layer_norm(states, states.shape[1:])
    assert np.allclose(normalized(states.numpy()), truth.numpy(), atol=1e-4)


def test_all_principal_components_keep_distances(store: Entries) -> None:
    width = store.key("att").type.width
    change = principal_components(store, "att", width)
    some = store.key("att").read(0, 50).astype(np.float32)
    rotated = change(some)
    before = ((some[:, None] - some[None]) ** 2).sum(-1)
    after = ((rotated[:, None] - rotated[None]) ** 2).sum(-1)
    assert np.allclose(before, after, rtol=1e-3, atol=1e-3)
    assert change(some)[:, :3] == pytest.approx(
        principal_components(store, "att", 3)(some), abs=1e-4
    )
