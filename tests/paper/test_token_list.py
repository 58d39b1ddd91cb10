"""Lists of tokens instead of neighbors: the same as the dense distributions cut down to those
tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from knnlm.components.knn import TargetVotes
from knnlm.datastore.entries import Entries
from knnlm.models.load import LanguageModel
from knnlm.search.neighbors import Neighbors
from knnlm_paper.conditions.token_list.lists import distances, likeliest, logits, relisted
from tests.arrays import InMemory
from tests.search.conftest import built as built
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store

V = 12


@given(st.integers(0, 2**32 - 1), st.integers(1, V + 3), st.sampled_from([0.3, 1.0, 7.0]))
def test_the_likeliest_words_are_renormalized(seed: int, k: int, tau: float) -> None:
    rng = np.random.default_rng(seed)
    dense, targets = (
        rng.standard_normal((9, V)).astype(np.float32),
        rng.integers(0, V, 9).astype(np.int32),
    )
    votes = TargetVotes(
        likeliest(lambda a, b: dense[a:b], 9, k), np.arange(V, dtype=np.int32), targets
    )
    for row, target in enumerate(targets):
        kept = np.sort(dense[row])[::-1][:k]
        inside = dense[row, target] >= kept[-1]
        wanted = dense[row, target] / tau - logsumexp(kept / tau) if inside else -np.inf
        assert votes.logprobs(tau)[row] == pytest.approx(wanted, abs=1e-5)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.3, 1.0, 7.0]))
def test_retrieved_words_are_scored_anew(seed: int, duplicates: bool, tau: float) -> None:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, V, 30).astype(np.int32)
    ids = rng.integers(-1, 30, (6, 8))
    near = InMemory(Neighbors(ids, np.where(ids < 0, -np.inf, 0).astype(np.float32)))
    dense, targets = (
        rng.standard_normal((6, V)).astype(np.float32),
        rng.integers(0, V, 6).astype(np.int32),
    )
    votes = TargetVotes(
        relisted(near, tokens, lambda a, b: dense[a:b], duplicates),
        np.arange(V, dtype=np.int32),
        targets,
    )
    for row, target in enumerate(targets):
        words = [int(tokens[i]) for i in ids[row] if i >= 0]
        words = words if duplicates else sorted(set(words))
        with np.errstate(divide="ignore"):
            wanted = logsumexp([dense[row, w] / tau for w in words if w == target] or [-np.inf]) - (
                logsumexp([dense[row, w] / tau for w in words]) if words else 0
            )
        assert votes.logprobs(tau)[row] == pytest.approx(wanted, abs=1e-5)


def test_all_words_by_the_lms_logits_are_the_lm(lm: LanguageModel, queries: Entries) -> None:
    scores = logits(lm.model, queries.key("ffn").all())
    every = likeliest(scores, queries.count, queries.vocab_size)
    votes = TargetVotes(every, np.arange(queries.vocab_size, dtype=np.int32), queries.targets)
    assert np.allclose(votes.logprobs(1.0), queries.lm_logprob, atol=5e-3)


def test_distances_are_those_to_the_embedding() -> None:
    rng = np.random.default_rng(0)
    w, h = (
        rng.standard_normal((V, 4)).astype(np.float32),
        rng.standard_normal((5, 4)).astype(np.float32),
    )
    truth = -((w[None] - h[:, None]) ** 2).sum(-1)
    assert np.allclose(distances(w, h)(0, 5), truth, atol=1e-4)
