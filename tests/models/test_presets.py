"""The base LMs have the traits of the paper's model."""

from typing import Any

import pytest
import torch

from knnlm.errors import UsageError
from knnlm.models.presets import PAPER, PRESETS, SMOKE, new_model, preset_named


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return new_model(SMOKE, 100, 0).eval()


def test_blocks_normalize_first_use_relu_and_the_embeddings_are_untied(model: Any) -> None:
    config = model.config
    assert config.do_layer_norm_before
    assert config.activation_function == "relu"
    weight_in, weight_out = (
        model.get_input_embeddings().weight,
        model.get_output_embeddings().weight,
    )
    assert weight_in is not weight_out
    assert not torch.equal(weight_in, weight_out)


@torch.inference_mode()
def test_the_output_of_the_body_is_the_raw_residual_stream(model: Any) -> None:
    decoder = model.model.decoder
    assert decoder.final_layer_norm is None
    outputs: list[torch.Tensor] = []
    handle = decoder.layers[-1].register_forward_hook(
        lambda _, __, output: outputs.append(output[0] if isinstance(output, tuple) else output)
    )
    body = model.model(input_ids=torch.arange(20)[None]).last_hidden_state
    handle.remove()
    assert torch.equal(body, outputs[0])


def test_no_token_is_padding_so_every_input_embedding_can_learn(model: Any) -> None:
    assert model.get_input_embeddings().padding_idx is None
    assert (model.get_input_embeddings().weight.norm(dim=1) > 0).all()


def test_a_model_has_the_vocabulary_positions_and_end_of_text_it_is_given() -> None:
    with torch.device("meta"):
        model = new_model(SMOKE, 77, 5)
    assert model.get_output_embeddings().weight.shape == (77, SMOKE.width)
    assert model.config.max_position_embeddings == SMOKE.context
    assert (model.config.bos_token_id, model.config.eos_token_id) == (5, 5)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_can_be_trained(name: str) -> None:
    p = preset_named(name)
    assert p.name == name
    assert p.width % p.heads == 0
    assert 0 < p.warmup < p.steps
    assert p.valid_every <= p.steps
    assert p.valid_tokens >= p.context


def test_the_papers_preset_has_the_papers_constants() -> None:
    assert (PAPER.layers, PAPER.heads, PAPER.width, PAPER.ffn) == (16, 8, 1024, 4096)
    assert (PAPER.vocab_size, PAPER.context) == (33_344, 3072)
    assert PAPER.batch * PAPER.context == 9216
    assert (PAPER.steps, PAPER.warmup) == (286_000, 16_000)
    assert (PAPER.dropout, PAPER.attention_dropout) == (0.3, 0.1)


def test_the_papers_preset_has_the_papers_number_of_parameters_apart_from_positions() -> None:
    with torch.device("meta"):
        model = new_model(PAPER, PAPER.vocab_size, 0)
    learned_positions = (
        model.model.decoder.embed_positions.weight.numel()
    )  # the paper's: sinusoidal
    count = sum(p.numel() for p in model.parameters()) - learned_positions
    assert count == pytest.approx(269.8e6, abs=0.05e6)


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        UsageError,
        match=r"unknown preset 'labtop': did you mean 'laptop'\? choose one of demo, laptop",
    ):
        preset_named("labtop")
