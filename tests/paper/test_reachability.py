"""Which words no state can make the most probable: on matrices where the answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from knnlm_paper.conditions.reachability.reachable import _linear_program, reachable_tokens


def hull(
    rng: np.random.Generator, outside: int, inside: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points on a sphere, all of them reachable, and points well inside their hull, none of which
    is."""
    corners = rng.standard_normal((outside, width))
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    shares = rng.dirichlet(np.ones(outside), inside)
    rows = np.concatenate([corners, shares @ corners]) + rng.standard_normal(width)
    order = rng.permutation(len(rows))
    return rows[order], (np.arange(len(rows)) < outside)[order]


@pytest.mark.parametrize(
    "rounds", [0, 300]
)  # the linear programmes alone, and with what the perceptron finds
@pytest.mark.parametrize(
    ("outside", "inside", "width"), [(40, 10, 3), (200, 30, 8), (60, 0, 2), (30, 5, 20)]
)
def test_exactly_the_interior_words_are_unreachable(
    outside: int, inside: int, width: int, rounds: int
) -> None:
    rows, truth = hull(np.random.default_rng(outside), outside, inside, width)
    found = reachable_tokens(rows.astype(np.float32), rounds)
    assert np.array_equal(found.tokens, truth)
    assert found.linear_programs >= inside


@pytest.mark.pipeline
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 4))
def test_both_ways_agree(seed: int, words: int, width: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((words, width))
    found = reachable_tokens(rows, 50).tokens
    centred = rows - rows.mean(axis=0)
    centred /= np.abs(centred).max()
    assert found.tolist() == [_linear_program(centred, v, centred[v]) for v in range(words)]


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_a_word_far_from_all_others_hides_none_of_them(far: float) -> None:
    rows, truth = hull(np.random.default_rng(0), 40, 10, 3)
    towards = np.array([0.0, 0.0, far])
    found = reachable_tokens(
        np.concatenate([rows, [rows.mean(axis=0) + towards]]), rounds=50
    ).tokens
    assert found[-1]
    alone = [
        _alone(np.concatenate([rows, [rows.mean(axis=0) + towards]]), v) for v in range(len(rows))
    ]
    assert found[:-1].tolist() == alone
    assert not found[:-1][~truth].any()
    assert found[:-1].sum() > 10


def _alone(rows: np.ndarray, word: int) -> bool:
    """By one programme with all words, gaps of length one."""
    gaps = np.delete(rows[word] - rows, word, axis=0)
    gaps /= np.linalg.norm(gaps, axis=1, keepdims=True)
    width = rows.shape[1]
    found = linprog(
        [0.0] * width + [-1.0],
        A_ub=np.column_stack([-gaps, np.ones(len(gaps))]),
        b_ub=[0.0] * len(gaps),
        bounds=[(-1, 1)] * width + [(None, 1)],
        method="highs",
    )
    return float(found.x[-1]) > 1e-7


def test_on_a_line_only_the_ends_are_reachable() -> None:
    assert reachable_tokens(np.array([[0.0], [3.0], [1.0], [2.0]])).tokens.tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_equal_rows_take_each_others_place() -> None:
    assert reachable_tokens(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.5]])).tokens.tolist() == [
        False,
        False,
        True,
    ]
