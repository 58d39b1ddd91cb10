"""Each token of a document after the first is predicted exactly once, with enough before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import UsageError
from knnlm.text.windows import Window, check_window, cut_windows

SIZES = st.integers(1, 64).flatmap(lambda w: st.tuples(st.just(w), st.integers(1, w)))


@given(st.integers(1, 400), SIZES)
def test_every_target_is_scored_once_and_in_order(length: int, sizes: tuple[int, int]) -> None:
    scored = [t for w in cut_windows(length, *sizes) for t in range(w.first, w.stop + 1)]
    assert scored == list(range(1, length))


@given(st.integers(1, 400), SIZES)
def test_windows_stay_inside_the_document_and_are_never_too_long(
    length: int, sizes: tuple[int, int]
) -> None:
    for w in cut_windows(length, *sizes):
        assert 0 <= w.start < w.stop <= length - 1
        assert w.stop - w.start <= sizes[0]
        assert w.start < w.first <= w.stop + 1
        assert w.scored == len(range(w.first, w.stop + 1)) > 0


@given(st.integers(1, 400), SIZES)
def test_every_target_sees_all_before_it_or_the_promised_context(
    length: int, sizes: tuple[int, int]
) -> None:
    window, stride = sizes
    for w in cut_windows(length, window, stride):
        for target in range(w.first, w.stop + 1):
            assert target - w.start >= min(target, window - stride + 1)


@given(st.integers(1, 400), SIZES)
def test_no_more_windows_are_run_than_the_stride_asks_for(
    length: int, sizes: tuple[int, int]
) -> None:
    window, stride = sizes
    beyond_the_first = max(0, length - 1 - window)
    assert len(list(cut_windows(length, window, stride))) == (length > 1) + -(
        -beyond_the_first // stride
    )


def test_the_example_that_is_drawn_is_what_comes_out() -> None:
    assert list(cut_windows(10, 5, 2)) == [Window(0, 5, 1), Window(2, 7, 6), Window(4, 9, 8)]
    assert [w.scored for w in cut_windows(10, 5, 2)] == [5, 2, 2]


@pytest.mark.parametrize("length", [0, 1])
def test_a_document_without_a_second_token_has_no_windows(length: int) -> None:
    assert list(cut_windows(length, 5, 2)) == []


@pytest.mark.parametrize(("window", "stride"), [(0, 0), (0, 1), (5, 0), (5, 6), (-1, -1), (5, -2)])
def test_an_impossible_window_or_stride_is_refused(window: int, stride: int) -> None:
    with pytest.raises(
        UsageError,
        match=rf"window {window} with stride {stride} is impossible: choose 1 ≤ stride ≤ window",
    ):
        check_window(window, stride)


def test_a_window_longer_than_the_model_is_refused() -> None:
    check_window(32, 1, longest=32)
    check_window(33, 33)
    with pytest.raises(
        UsageError, match=r"window 33 is longer than the model's 32 positions: choose 32 or less"
    ):
        check_window(33, 1, longest=32)
