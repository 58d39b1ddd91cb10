"""Which tokens an update sees is a pure function of the seed and the step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import KnnlmError
from knnlm.training.token_batches import TokenBatches, validation_windows

TOKENS = np.arange(1000, dtype=np.int32)


def test_a_batch_is_the_same_whenever_it_is_asked_for() -> None:
    in_order = TokenBatches(TOKENS, 10, 4, seed=3)
    ahead = [in_order.at(step) for step in range(80)]
    for step in (79, 0, 40, 7):
        np.testing.assert_array_equal(TokenBatches(TOKENS, 10, 4, seed=3).at(step), ahead[step])


def test_seeds_and_epochs_see_the_windows_in_another_order() -> None:
    one, other = TokenBatches(TOKENS, 10, 4, seed=0), TokenBatches(TOKENS, 10, 4, seed=1)
    assert not np.array_equal(one.at(0), other.at(0))
    assert not np.array_equal(one.at(0), one.at(one.steps_per_epoch))


@given(st.integers(9, 300), st.integers(1, 8), st.integers(1, 9), st.integers(0, 5))
def test_an_epoch_sees_no_token_twice_and_nearly_all_of_them(
    length: int, context: int, batch: int, seed: int
) -> None:
    tokens = np.arange(length, dtype=np.int32)
    if (length - 1) // context < 2:
        return
    batches = TokenBatches(tokens, context, batch, seed)
    for epoch in range(2):
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        seen = np.concatenate([batches.at(step)[:, 1:].ravel() for step in steps])
        assert len(set(seen.tolist())) == len(seen)
        assert len(seen) > length - 1 - 2 * context - batch * context


def test_an_epoch_sees_each_window_exactly_once() -> None:
    batches = TokenBatches(TOKENS[:401], 10, 3, seed=0)
    starts = np.concatenate([batches.at(step)[:, 0] for step in range(batches.steps_per_epoch)])
    assert batches.windows == 39
    np.testing.assert_array_equal(np.sort(starts), starts.min() + 10 * np.arange(39))


def test_targets_are_the_inputs_shifted_by_one() -> None:
    batch = TokenBatches(TOKENS, 10, 4, seed=0).at(5)
    assert batch.shape == (4, 11)
    assert batch.dtype == np.int64
    np.testing.assert_array_equal(batch[:, 1:], batch[:, :-1] + 1)


def test_windows_begin_at_another_offset_in_every_epoch() -> None:
    batches = TokenBatches(TOKENS, 10, 1, seed=0)
    assert (
        len({int(batches.at(epoch * batches.steps_per_epoch)[0, 0]) % 10 for epoch in range(20)})
        > 5
    )


def test_a_batch_is_never_larger_than_the_text() -> None:
    assert TokenBatches(TOKENS[:41], 10, 100, seed=0).at(0).shape == (3, 11)


def test_too_short_a_text_is_refused() -> None:
    assert TokenBatches(TOKENS[:21], 10, 4, seed=0).at(0).shape == (1, 11)
    with pytest.raises(
        KnnlmError, match=r"the training text has 20 tokens but two windows of 10 are the least"
    ):
        TokenBatches(TOKENS[:20], 10, 4, seed=0)


def test_validation_windows_follow_each_other_up_to_the_limit() -> None:
    windows = validation_windows(TOKENS, 10, limit=45)
    np.testing.assert_array_equal(windows[:, 1:].ravel(), np.arange(1, 41))
    np.testing.assert_array_equal(windows[:, 0], [0, 10, 20, 30])
    assert len(validation_windows(TOKENS, 10, limit=1 << 30)) == 99


def test_too_short_a_validation_text_is_refused() -> None:
    with pytest.raises(
        KnnlmError,
        match=r"the validation text has 10 tokens, fewer than one window of 10: give more text",
    ):
        validation_windows(TOKENS[:10], 10, limit=100)
