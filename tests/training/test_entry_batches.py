"""Batches of entries: each entry once an epoch except those that do not fill a batch, repeatable,
in bounded memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import knnlm.training.entry_batches as module
from knnlm.errors import UsageError
from knnlm.training.entry_batches import EntryBatches, in_memory
from tests.arrays import column


def batches(entries: int, batch: int, buffer: int, seed: int = 0) -> EntryBatches:
    states = column(np.arange(entries, dtype=np.float32)[:, None], parts=min(3, entries))
    more = {"tenfold": in_memory(10.0 * np.arange(entries))}
    tokens = np.arange(entries, dtype=np.int32)
    return EntryBatches([states, states], tokens, batch, seed, more=more, buffer_entries=buffer)


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 400), st.integers(0, 3))
def test_an_epoch_sees_each_entry_at_most_once_and_misses_few(
    entries: int, batch: int, buffer: int, epoch: int
) -> None:
    if entries < batch:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ENTRIES", 16)
        made = batches(entries, batch, buffer)
        first = epoch * made.steps_per_epoch
        seen = [made.at(step) for step in range(first, first + made.steps_per_epoch)]
    ids = torch.cat([b.targets for b in seen])
    assert len(ids) == len(ids.unique())
    for b in seen:
        for state in b.states.T:  # a state keeps its token
            assert torch.equal(state.long(), b.targets)
        assert torch.equal(b.more["tenfold"], 10.0 * b.targets)
    assert len(ids) > entries - made.buffers * (batch + 16)


def test_steps_do_not_depend_on_what_was_asked_before() -> None:
    a, b = batches(5000, 64, 2048), batches(5000, 64, 2048)
    in_order = [a.at(step).targets for step in range(150)]
    for step in (149, 3, 77):
        assert torch.equal(b.at(step).targets, in_order[step])


def test_epochs_and_seeds_differ() -> None:
    made = batches(4096, 256, 1 << 18)
    assert not torch.equal(made.at(0).targets, made.at(made.steps_per_epoch).targets)
    assert not torch.equal(made.at(0).targets, batches(4096, 256, 1 << 18, seed=1).at(0).targets)


def test_entries_far_apart_meet_in_a_batch() -> None:
    targets = batches(1 << 15, 512, 1 << 13).at(0).targets
    assert targets.max() - targets.min() > (1 << 15) // 2


def test_fewer_entries_than_a_batch_are_refused() -> None:
    with pytest.raises(UsageError, match="10 entries are fewer than one batch of 64"):
        batches(10, 64, 100)
