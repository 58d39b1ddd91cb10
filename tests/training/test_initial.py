"""Substitutes begin near the LM, and adaptive sizes come as near as they can to the rows they may
have."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import UsageError
from knnlm.training.initial import ComponentSpec, begin, rows_for_words

V, D = 12, 6


@pytest.mark.parametrize(
    "what",
    [
        ComponentSpec(keys=("ffn",)),
        ComponentSpec(keys=("ffn",), size=4),
        ComponentSpec(kind="softmaxes", keys=("ffn",), size=3),
        ComponentSpec(kind="network", keys=("att", "ffn"), size=10),
    ],
    ids=lambda w: f"{w.kind}-{w.size}",
)
def test_everything_begins_near_the_lm(what: ComponentSpec) -> None:
    torch.manual_seed(0)
    w_sm, ffn, att = torch.randn(V, D), torch.randn(7, D), torch.randn(7, D)
    truth = (ffn @ w_sm.T).log_softmax(1)
    states = ffn if len(what.keys) == 1 else torch.cat([att, ffn], dim=1)
    found = begin(what, w_sm, None, seed=1).component().logprobs(states)
    exactly = what.size == 1 or what.kind == "network"
    assert (found - truth).abs().mean() < (1e-5 if exactly else 0.6)
    assert torch.allclose(found.exp().sum(1), torch.ones(7), atol=1e-5)


def test_under_l2_the_beginning_is_as_peaky_as_the_lm() -> None:
    torch.manual_seed(0)
    w_sm, ffn = torch.randn(V, D), torch.randn(7, D)
    found = (
        begin(ComponentSpec(keys=("ffn",), metric="l2"), w_sm, None, seed=0)
        .component()
        .logprobs(ffn)
    )
    assert torch.allclose(
        found, (ffn @ w_sm.T - w_sm.square().sum(1) / 4).log_softmax(1), atol=1e-5
    )


def test_rows_of_one_word_differ_and_seeds_differ() -> None:
    w_sm = torch.randn(V, D)
    weight = begin(ComponentSpec(size=2), w_sm, None, seed=0).weight
    assert not torch.equal(weight[0], weight[1])  # type: ignore[index]
    assert not torch.equal(weight, begin(ComponentSpec(size=2), w_sm, None, seed=1).weight)  # type: ignore[arg-type]
    assert torch.equal(weight, begin(ComponentSpec(size=2), w_sm, None, seed=0).weight)  # type: ignore[arg-type]


def test_a_frozen_output_embedding_is_not_learned() -> None:
    module = begin(
        ComponentSpec(kind="softmaxes", size=2, own_embedding=False), torch.randn(V, D), None, 0
    )
    learned = {name for name, p in module.named_parameters() if p.requires_grad}
    assert learned == {"views", "view_bias", "gate", "gate_bias"}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(1, 9))
def test_adaptive_rows_fill_what_they_may_have(weights: list[float], n: int) -> None:
    total = n * len(weights)
    rows = rows_for_words(weights, total)
    assert rows.min() >= 1
    assert rows.sum() <= total
    order = np.argsort(weights)
    assert (np.diff(rows[order]) >= 0).all()  # a heavier word never has fewer
    if max(weights) <= 1:
        assert rows.max() == 1


def test_adaptive_rows_come_near_their_total_for_real_frequencies() -> None:
    frequencies = 1e6 / np.arange(1, 4097)
    assert rows_for_words(frequencies, 3 * 4096).sum() == pytest.approx(3 * 4096, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"size": 0}, "size 0 of embeddings is out of range: choose 1 to 64"),
        ({"kind": "softmaxes", "size": 99}, "size 99 of softmaxes is out of range: choose 1 to 16"),
        ({"keys": ("att", "ffn")}, "embeddings read one state: choose att or ffn"),
        ({"kind": "embedings"}, "did you mean 'embeddings'"),
    ],
)
def test_what_cannot_be_learned_is_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ComponentSpec(**fields)  # type: ignore[arg-type]


def test_fewer_rows_than_words_are_refused() -> None:
    with pytest.raises(UsageError, match="2 rows are fewer than the 3 words"):
        rows_for_words([1.0, 2.0, 3.0], 2)
