"""All rows vote: against the equation in float64 with k as large as the store."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knnlm.components import full_datastore as unmasked
from knnlm.components.full_datastore import full_datastore_logprobs
from knnlm.equation import p_knn, similarity
from knnlm.errors import UsageError
from knnlm.similarity import Metric


class Rows:
    """States in memory."""

    def __init__(self, states: Any) -> None:
        self.states = states

    def blocks(self, size: int) -> Any:
        return (
            (start, self.states[start : start + size]) for start in range(0, len(self.states), size)
        )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    rows=st.integers(1, 40),
    words=st.integers(1, 9),
    queries=st.integers(1, 9),
    block=st.integers(1, 50),
    metric=st.sampled_from(["l2", "ip"]),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_it_is_the_equation_with_every_row(
    seed: int, rows: int, words: int, queries: int, block: int, metric: Metric, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    stored = (rng.standard_normal((rows, 3)) * spread).astype(np.float16)
    asked = (rng.standard_normal((queries, 3)) * spread).astype(np.float16)
    tokens, targets = rng.integers(0, words, rows), rng.integers(0, words, queries)
    taus = [0.5, 1.0, 20.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unmasked, "_ROWS", block)
        patch.setattr(unmasked, "_QUERIES", max(1, block // 3))
        found = full_datastore_logprobs(Rows(stored), tokens, asked, targets, metric, taus)
    scores = similarity(stored.astype(np.float64), asked.astype(np.float64), metric)
    for place, tau in enumerate(taus):
        with np.errstate(divide="ignore"):
            wanted = np.log(p_knn(scores, tokens, words, rows, tau)[np.arange(queries), targets])
        ours, sure = (
            found[place],
            wanted > -600,
        )  # below, the dense equation comes near the end of float64
        assert np.allclose(ours[sure], wanted[sure], rtol=1e-4, atol=1e-3)
        held = np.isin(targets, tokens)
        assert np.array_equal(np.isfinite(ours), held)


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="choose a number above 0"):
        full_datastore_logprobs(
            Rows(np.zeros((2, 3))),
            np.zeros(2, int),
            np.zeros((1, 3)),
            np.zeros(1, int),
            "l2",
            [0.0],
        )
