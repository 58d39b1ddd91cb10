"""Components start near the LM, and adaptive sizes come as near as they can to their total."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import UsageError
from knnlm.training.initial import embeddings_by_weight, initial_module
from knnlm.training.kinds import KINDS, ComponentSpec

V, D = 12, 6


@pytest.mark.parametrize(
    "spec",
    [
        ComponentSpec(keys=("ffn",)),
        ComponentSpec(keys=("ffn",), size=4),
        ComponentSpec(kind="mixture-of-softmaxes", keys=("ffn",), size=3),
        ComponentSpec(kind="mlp", keys=("att", "ffn"), size=10),
    ],
    ids=lambda spec: f"{spec.kind}-{spec.size}",
)
def test_everything_starts_near_the_lm(spec: ComponentSpec) -> None:
    torch.manual_seed(0)
    w_sm, ffn, att = torch.randn(V, D), torch.randn(7, D), torch.randn(7, D)
    truth = (ffn @ w_sm.T).log_softmax(1)
    states = ffn if len(spec.keys) == 1 else torch.cat([att, ffn], dim=1)
    logs = initial_module(spec, w_sm, None, seed=1).component().logprobs(states)
    exactly = spec.size == 1 or spec.kind == "mlp"
    assert (logs - truth).abs().mean() < (1e-5 if exactly else 0.6)
    assert torch.allclose(logs.exp().sum(1), torch.ones(7), atol=1e-5)


def test_under_l2_the_start_is_as_sharp_as_the_lm() -> None:
    torch.manual_seed(0)
    w_sm, ffn = torch.randn(V, D), torch.randn(7, D)
    logs = (
        initial_module(ComponentSpec(keys=("ffn",), metric="l2"), w_sm, None, seed=0)
        .component()
        .logprobs(ffn)
    )
    assert torch.allclose(logs, (ffn @ w_sm.T - w_sm.square().sum(1) / 4).log_softmax(1), atol=1e-5)


def test_embeddings_of_one_token_differ_and_seeds_differ() -> None:
    w_sm = torch.randn(V, D)
    weight = initial_module(ComponentSpec(size=2), w_sm, None, seed=0).weight
    assert not torch.equal(weight[0], weight[1])  # type: ignore[index]
    assert not torch.equal(weight, initial_module(ComponentSpec(size=2), w_sm, None, seed=1).weight)  # type: ignore[arg-type]
    assert torch.equal(weight, initial_module(ComponentSpec(size=2), w_sm, None, seed=0).weight)  # type: ignore[arg-type]


def test_a_frozen_output_embedding_is_not_learned() -> None:
    module = initial_module(
        ComponentSpec(kind="mixture-of-softmaxes", size=2, own_embedding=False),
        torch.randn(V, D),
        None,
        0,
    )
    learned = {name for name, p in module.named_parameters() if p.requires_grad}
    assert learned == {"projections", "projection_bias", "gate", "gate_bias"}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(1, 9))
def test_adaptive_sizes_fill_their_total(weights: list[float], n: int) -> None:
    total = n * len(weights)
    counts = embeddings_by_weight(weights, total)
    assert counts.min() >= 1
    assert counts.sum() <= total
    order = np.argsort(weights)
    assert (np.diff(counts[order]) >= 0).all()  # a heavier token never has fewer
    if max(weights) <= 1:
        assert counts.max() == 1


def test_adaptive_sizes_come_near_their_total_for_real_frequencies() -> None:
    frequencies = 1e6 / np.arange(1, 4097)
    assert embeddings_by_weight(frequencies, 3 * 4096).sum() == pytest.approx(3 * 4096, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"size": 0}, "size 0 of head is out of range: choose 1 to 64"),
        (
            {"kind": "mixture-of-softmaxes", "size": 99},
            "size 99 of mixture-of-softmaxes is out of range: choose 1 to 16",
        ),
        ({"keys": ("att", "ffn")}, "a head component reads one hidden state: choose att or ffn"),
        ({"kind": "haed"}, "did you mean 'head'"),
    ],
)
def test_what_cannot_be_learned_is_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ComponentSpec(**fields)  # type: ignore[arg-type]


def test_fewer_embeddings_than_vocabulary_entries_are_refused() -> None:
    with pytest.raises(UsageError, match="2 embeddings are fewer than the 3 vocabulary entries"):
        embeddings_by_weight([1.0, 2.0, 3.0], 2)


def test_the_command_lines_help_names_every_kind() -> None:
    """It is written by hand, because help must not load torch."""
    from knnlm.cli.distill import Kind

    (option,) = Kind.__metadata__  # type: ignore[attr-defined]
    assert all(kind in option.help for kind in KINDS)
