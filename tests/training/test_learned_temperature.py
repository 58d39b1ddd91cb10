"""The one search for τ on learned components: wherever the best is, and no τ is computed twice."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from knnlm.components.base import QueryArrays
from knnlm.components.head import Head
from knnlm.components.learned import _LearnedScores
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.evaluation.tuning import best_temperature, temperature_sweep


def head_of(rng: np.random.Generator, vocab_size: int) -> Head:
    weight = torch.from_numpy(rng.standard_normal((vocab_size, 8)).astype(np.float32))
    return Head(("att",), weight, torch.ones(vocab_size, dtype=torch.int64), "ip", 1.0)


def drawn(rng: np.random.Generator, head: Head, states: NDArray[np.float32]) -> QueryArrays:
    """Hidden states, and tokens drawn from what a head gives for them."""
    p = head.logprobs(torch.from_numpy(states)).exp().double().numpy()
    targets = [rng.choice(head.vocab_size, p=row / row.sum()) for row in p]
    return QueryArrays(states, np.array(targets, np.int32))


def test_the_best_temperature_is_found_beyond_a_plateau() -> None:
    """Far from the best τ the component is useless, λ is zero and nothing changes with τ."""
    rng = np.random.default_rng(1)
    head = head_of(rng, 50)
    states = 300 * rng.standard_normal((3000, 8)).astype(np.float32)
    queries = drawn(rng, head.at_temperature(600.0), states)
    lm = np.full(3000, -np.log(50) + 0.1)
    best = best_temperature(lm, head.target_scores(queries))
    assert best.tau == pytest.approx(600, rel=0.5)
    assert best.ppl < 0.98 * perplexity(lm)


@pytest.mark.parametrize("truth", [0.02, 0.7, 1.0, 30.0])
def test_the_best_temperature_is_found_wherever_it_is(truth: float) -> None:
    rng = np.random.default_rng(0)
    head = head_of(rng, 20)
    states = rng.standard_normal((4000, 8)).astype(np.float32) * truth**0.5
    queries = drawn(rng, head.at_temperature(truth), states)
    lm = np.full(4000, -np.log(20))
    scores = head.target_scores(queries)
    best = best_temperature(lm, scores)
    assert best.tau == pytest.approx(truth, rel=0.35)
    logs = head.at_temperature(best.tau).target_logprobs(queries)
    assert best.lam == fit_lambda(lm, logs)
    assert best.ppl == pytest.approx(perplexity(mix(lm, logs, best.lam)))
    assert best.ppl <= temperature_sweep(lm, scores, [1.0])[0].ppl


@pytest.mark.parametrize("count", [1500, 3000])  # all queries on the wide grid, and some of them
def test_a_temperature_is_computed_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    head = head_of(rng, 20)
    states = rng.standard_normal((count, 8)).astype(np.float32)
    queries = QueryArrays(states, rng.integers(0, 20, count).astype(np.int32))
    real, computed = _LearnedScores.logprobs, []

    def counted(self: _LearnedScores, tau: float) -> Any:
        computed.append((tau, len(self.targets)))
        return real(self, tau)

    monkeypatch.setattr(_LearnedScores, "logprobs", counted)
    lm = np.full(count, -np.log(20))
    first, second = (best_temperature(lm, head.target_scores(queries)) for _ in range(2))
    assert first == second
    once = computed[: len(computed) // 2]
    assert computed == 2 * once
    assert len(once) == len(set(once))
    assert {queries for _, queries in once} == ({count} if count < 2048 else {2048, count})
