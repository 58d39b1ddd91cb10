"""λ: mixing and the exact fit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from knnlm.errors import UsageError
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, fit_weights, mix, mix_several, oracle


def logs(seed: int, n: int, missing: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of two predictors of n tokens; the second misses some altogether."""
    rng = np.random.default_rng(seed)
    lm = np.log(rng.uniform(1e-6, 1, n))
    other = np.log(rng.uniform(1e-9, 1, n)) * rng.choice([0.3, 1, 3])
    other[rng.uniform(size=n) < missing] = -np.inf
    return lm, other


@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from([0.0, 0.2, 0.9, 1.0]))
def test_the_fit_is_never_worse_than_a_grid_of_10000(seed: int, n: int, missing: float) -> None:
    lm, other = logs(seed, n, missing)
    grid = np.linspace(0, 1, 10_001)[:, None]
    with np.errstate(divide="ignore"):
        best = np.log((1 - grid) * np.exp(lm) + grid * np.exp(other)).mean(axis=1).max()
    assert mix(lm, other, fit_lambda(lm, other)).mean() >= best - 1e-12


def test_the_ends_are_found() -> None:
    lm = np.log([0.5, 0.5])
    assert fit_lambda(lm, np.log([0.1, 0.2])) == 0.0
    assert fit_lambda(lm, np.log([0.9, 0.8])) == 1.0
    assert fit_lambda(lm, np.array([-np.inf, -np.inf])) == 0.0


def test_extreme_ratios_do_not_overflow() -> None:
    lam = fit_lambda(np.array([-2000.0, -1.0]), np.array([-1.0, -np.inf]))
    assert_allclose(lam, 0.5, atol=1e-6)


def test_lambda_0_and_1_are_exactly_the_parts() -> None:
    lm, other = logs(1, 50, 0.3)
    assert np.array_equal(mix(lm, other, 0.0), lm)
    assert np.array_equal(mix(lm, other, 1.0), other)


def test_mixing_is_the_sum_of_probabilities() -> None:
    lm, other = logs(2, 50, 0.0)
    assert_allclose(np.exp(mix(lm, other, 0.3)), 0.7 * np.exp(lm) + 0.3 * np.exp(other), rtol=1e-12)


def test_the_oracle_bounds_every_mixture() -> None:
    lm, other = logs(3, 200, 0.4)
    assert perplexity(oracle(lm, other)) <= perplexity(mix(lm, other, fit_lambda(lm, other)))


@pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan")])
def test_a_weight_out_of_range_is_refused(lam: float) -> None:
    with pytest.raises(UsageError, match="lambda .* out of range: choose 0 to 1"):
        mix(np.zeros(1), np.zeros(1), lam)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 200))
def test_weights_of_several_are_no_worse_than_any_other(seed: int, count: int, tokens: int) -> None:
    rng = np.random.default_rng(seed)
    logs = [np.log(rng.random(tokens)) for _ in range(count)]
    weights = fit_weights(logs)
    assert sum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    best = mix_several(logs, weights).mean()
    for other in rng.dirichlet(np.ones(count), 20):
        assert mix_several(logs, other.tolist()).mean() <= best + 1e-9
    for one in np.eye(count):
        assert mix_several(logs, one.tolist()).mean() <= best + 1e-9


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.booleans())
def test_weights_of_several_are_no_worse_than_those_of_any_fewer(
    seed: int, count: int, twice: bool
) -> None:
    rng = np.random.default_rng(seed)
    logs = [np.log(rng.random(60)) for _ in range(count)]
    logs[0][rng.random(60) < 0.3] = -np.inf
    logs += [logs[-1]] if twice else []
    best = mix_several(logs, fit_weights(logs)).mean()
    for size in range(1, len(logs)):
        for some in itertools.combinations(logs, size):
            assert not mix_several(some, fit_weights(some)).mean() > best + 1e-9


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_three_weights_are_no_worse_than_a_fine_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs = np.log(rng.random((3, 50)))
    logs[2, rng.random(50) < 0.3] = -np.inf
    best = mix_several(list(logs), fit_weights(list(logs))).mean()
    a, b = (x.ravel() / 100 for x in np.mgrid[0:101, 0:101])
    grid = np.stack([a, b, 1 - a - b], axis=1)[a + b <= 1]
    with np.errstate(divide="ignore"):
        assert np.log(np.clip(grid, 0, 1) @ np.exp(logs)).mean(axis=1).max() <= best + 1e-9


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.sampled_from(["spread", "one token", "missing", "alike"]),
)
def test_no_mixture_could_gain_more_than_the_slopes_allow(seed: int, count: int, kind: str) -> None:
    """The likelihood is concave, so max_i mean p_i/P - 1 bounds what any other weights could
    gain."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(-4, 4 if kind == "spread" else 1, (count, 400))
    if kind == "one token":  # right about one, hopeless elsewhere
        logs[0], logs[0, 0] = -60.0, 0.0
    if kind == "missing":
        logs[:-1][rng.random((count - 1, 400)) < 0.5] = -np.inf
    if kind == "alike":
        logs[1] = logs[0] + 1e-9 * rng.normal(size=400)
    mixed = mix_several(list(logs), fit_weights(list(logs)))
    assert np.exp(logs - mixed).mean(axis=1).max() - 1 < 1e-9


@given(st.integers(0, 2**32 - 1))
def test_two_weights_are_lambda(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lm, other = np.log(rng.random(80)), np.log(rng.random(80))
    other[rng.random(80) < 0.3] = -np.inf
    weights = fit_weights([lm, other])
    assert weights[1] == pytest.approx(fit_lambda(lm, other), abs=1e-6)
    assert np.allclose(mix_several([lm, other], weights), mix(lm, other, weights[1]))


def test_a_predictor_that_holds_everything_impossible_gets_nothing() -> None:
    logs = [np.full(5, -1.0), np.full(5, -np.inf)]
    assert fit_weights(logs) == pytest.approx((1.0, 0.0), abs=1e-9)
    assert np.array_equal(mix_several(logs, (1.0, 0.0)), logs[0])
