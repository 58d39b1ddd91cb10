"""Every fast path against the dense equation in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose

from knnlm import equation
from knnlm.components.knn import TargetVotes, log_weights, vocabulary_logprobs
from knnlm.components.outputs import count_votes
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation.mixing import mix, mix_votes
from knnlm.search import score_entries
from knnlm.search.exact import exact_search
from knnlm.search.neighbors import MISSING, Neighbors, NeighborsInMemory
from tests.arrays import Case, cases, column


def dense_scores(case: Case) -> np.ndarray:
    return equation.similarity(case.w_ds.astype(float), case.h_ds.astype(float), case.metric)


def fast_neighbors(case: Case) -> Neighbors:
    return exact_search(case.h_ds, column(case.w_ds, case.parts), case.k, case.metric)


def test_the_equation_by_hand() -> None:
    """Two tokens; the query sits on entry 0 (token 1); entry 1 (token 0) is at distance 1, entry 2
    is beyond k. τ = 1."""
    p = equation.p_mixture(
        w_sm=np.zeros((2, 1)),
        h_sm=np.zeros((1, 1)),
        w_ds=np.array([[0.0], [1.0], [9.0]]),
        h_ds=np.array([[0.0]]),
        tokens=np.array([1, 0, 0]),
        k=2,
        tau=1.0,
        lam=0.5,
    )
    vote = 1 / (1 + np.exp(-1.0))
    assert_allclose(p, [[0.25 + 0.5 * (1 - vote), 0.25 + 0.5 * vote]], rtol=1e-12)


@given(cases())
def test_exact_search_keeps_the_entries_that_mask_to_k_keeps(case: Case) -> None:
    """Whole numbers are exact in fp32: ids, order, ties and duplicates must agree to the last."""
    whole = case._replace(w_ds=np.round(case.w_ds), h_ds=np.round(case.h_ds))
    near, scores = fast_neighbors(whole), dense_scores(whole)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : whole.k]
    have = order.shape[1]
    assert np.array_equal(near.ids[:, :have], order)
    assert np.array_equal(near.scores[:, :have], np.take_along_axis(scores, order, axis=1))
    assert (near.ids[:, have:] == MISSING).all()
    assert np.isneginf(near.scores[:, have:]).all()


@given(cases())
def test_exact_search_on_any_numbers_is_right_within_rounding(case: Case) -> None:
    near, scores = fast_neighbors(case), dense_scores(case)
    for b, ids in enumerate(near.ids):
        kept = ids[ids != MISSING]
        assert len(kept) == min(case.k, len(case.w_ds)) == len(set(kept.tolist()))
        assert_allclose(near.scores[b][: len(kept)], scores[b][kept], rtol=1e-5, atol=1e-5)
        assert_allclose(scores[b][kept], -np.sort(-scores[b])[: len(kept)], rtol=1e-5, atol=1e-5)


@given(cases())
def test_the_whole_equation(case: Case) -> None:
    """States, search, scores, votes, mixing: all together, for the whole vocabulary."""
    near = fast_neighbors(case)
    rescored = Neighbors(
        near.ids, score_entries(case.metric, case.h_ds, near.ids, column(case.w_ds, case.parts))
    )
    # the edge of mask-to-k may differ by rounding: keep the entries that the search kept
    scores = dense_scores(case)
    kept = np.full_like(scores, -np.inf)
    for b, ids in enumerate(near.ids):
        kept[b, ids[ids >= 0]] = scores[b, ids[ids >= 0]]
    p_knn = equation.p_knn(kept, case.tokens, len(case.w_sm), len(case.w_ds), case.tau)
    p_lm = equation.softmax(case.h_sm @ case.w_sm.T)
    dense = (1 - case.lam) * p_lm + case.lam * p_knn
    fast_knn = vocabulary_logprobs(rescored, case.tokens, len(case.w_sm), case.tau).numpy()
    with np.errstate(divide="ignore"):
        fast = np.exp(mix(np.log(p_lm), fast_knn, case.lam))
    assert_allclose(fast, dense, atol=1e-3 if case.tau < 0.1 else 2e-5)
    assert_allclose(fast.sum(axis=1), 1.0, atol=1e-5)


@given(cases())
def test_mixing_the_votes_alone_is_mixing_whole_vocabularies(case: Case) -> None:
    near = fast_neighbors(case)
    votes = count_votes(near, case.tokens, len(case.w_sm), case.tau)
    p_lm = equation.softmax(case.h_sm @ case.w_sm.T)
    kept = np.full((len(near.ids), len(case.w_ds)), -np.inf)
    for b, ids in enumerate(near.ids):
        kept[b, ids[ids >= 0]] = near.scores[b, ids >= 0]
    p_knn = equation.p_knn(kept, case.tokens, len(case.w_sm), len(case.w_ds), case.tau)
    lm = torch.from_numpy(p_lm).log().float()
    tokens, logs = torch.from_numpy(votes.tokens), torch.from_numpy(votes.logprobs)
    mixed = mix_votes(lm, tokens, logs, case.lam).double().exp().numpy()
    assert_allclose(mixed, (1 - case.lam) * p_lm + case.lam * p_knn, rtol=1e-4, atol=1e-6)


@given(cases())
def test_target_votes_are_the_targets_entries_of_the_vocabulary(case: Case) -> None:
    near = fast_neighbors(case)
    votes = TargetVotes(NeighborsInMemory(near), case.tokens, case.targets)
    for k in {1, max(1, case.k // 2), case.k}:
        whole = vocabulary_logprobs(near.head(k), case.tokens, len(case.w_sm), case.tau)
        picked = whole[np.arange(len(case.targets)), case.targets]
        assert_allclose(votes.head(k).logprobs(case.tau), picked, rtol=1e-4, atol=1e-4)


@given(cases())
def test_a_smaller_k_is_the_head_of_a_larger_one(case: Case) -> None:
    larger = fast_neighbors(case)
    smaller = fast_neighbors(case._replace(k=max(1, case.k // 3)))
    assert np.array_equal(larger.head(smaller.ids.shape[1]).scores, smaller.scores)
    assert np.array_equal(larger.head(smaller.ids.shape[1]).ids, smaller.ids)


@given(cases())
def test_how_a_datastore_is_cut_into_parts_changes_nothing(case: Case) -> None:
    one = fast_neighbors(case._replace(parts=1))
    assert np.array_equal(one.ids, fast_neighbors(case._replace(parts=4)).ids)


def test_missing_neighbors_never_gain_probability() -> None:
    near = Neighbors(
        np.array([[2, MISSING, MISSING], [MISSING] * 3]),
        np.array([[-1.0, 5.0, np.inf], [9.0] * 3], np.float32),
    )
    tokens = np.array([7, 7, 3, 7], np.int32)  # token 7 is what id -1 would index
    p = vocabulary_logprobs(near, tokens, 8, 1.0).exp().numpy()
    assert p[0, 3] == 1.0
    assert p[0].sum() == 1.0
    assert p[1].sum() == 0.0
    votes = TargetVotes(NeighborsInMemory(near), tokens, np.array([7, 7], np.int32))
    assert np.isneginf(votes.logprobs(1.0)).all()
    assert votes.coverage == 0.0


def test_a_vote_far_below_the_best_is_small_but_not_nothing() -> None:
    near = Neighbors(np.array([[0, 1]]), np.array([[0.0, -500.0]], np.float32))
    votes = TargetVotes(
        NeighborsInMemory(near), np.array([4, 5], np.int32), np.array([5], np.int32)
    )
    assert_allclose(
        votes.logprobs(1.0), [-500.0]
    )  # exp(-500) is zero in fp32: a probability would have been lost


def test_log_weights_are_the_softmax() -> None:
    scores = np.array([[3.0, 1.0, -np.inf]], np.float32)
    assert_allclose(
        np.exp(log_weights(scores, 2.0)), equation.softmax(scores.astype(float) / 2.0), rtol=1e-6
    )


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    near = Neighbors(np.array([[0]]), np.zeros((1, 1), np.float32))
    with pytest.raises(KnnlmError, match="holds token 9 but the vocabulary has 5"):
        vocabulary_logprobs(near, np.array([9], np.int32), 5, 1.0)


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(tau: float) -> None:
    with pytest.raises(UsageError, match="temperature .* out of range"):
        log_weights(np.zeros((1, 1), np.float32), tau)
