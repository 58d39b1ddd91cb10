"""A model whose states cannot be read is refused with the reason: never a silently different
vector."""

import re
from typing import Any

import pytest
import torch

from knnlm.errors import KnnlmError
from knnlm.hidden_states import FAMILIES, Family, StateReader, default_keys
from tests.hidden_states import models


@torch.inference_mode()
def test_an_unknown_architecture_has_no_att_but_has_ffn() -> None:
    model = models.make("StableLm")
    message = (
        r"where 'att' is in stablelm models is not known \(known: .*\): use --keys ffn, or name "
        "the last block's feed-forward layer with --att-module"
    )
    with pytest.raises(KnnlmError, match=message):
        StateReader(model)
    assert default_keys(model)[0] == ("ffn",)
    assert re.match("storing 'ffn' states only: " + message, default_keys(model)[1])
    assert default_keys(model, "model.layers.1.mlp") == (("att", "ffn"), "")
    ids = models.some_tokens()
    with StateReader(model, ["ffn"]) as reader:
        torch.testing.assert_close(reader.logits(reader.read(ids).ffn), model(input_ids=ids).logits)
    with StateReader(model, att_module="model.layers.1.mlp") as reader:
        assert reader.widths() == {"att": 32, "ffn": 32}


@torch.inference_mode()
def test_a_head_that_reads_more_than_the_bodys_output_is_followed() -> None:
    model = models.make("Roberta", is_decoder=True, pad_token_id=1)
    ids = models.some_tokens() + 2
    ids = ids.clamp(max=models.VOCABULARY - 1)
    read: list[torch.Tensor] = []
    with StateReader(model, ["ffn"]) as reader:
        ffn = reader.read(ids).ffn
    handle = model.get_output_embeddings().register_forward_pre_hook(
        lambda _, inputs: read.append(inputs[0])
    )
    wanted = model(input_ids=ids)
    handle.remove()
    torch.testing.assert_close(ffn, read[0])
    torch.testing.assert_close(model.get_output_embeddings()(ffn), wanted.logits)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "model.layers.7.mlp",
            r"StableLmForCausalLM has no module 'model.layers.7.mlp': give a path such as model",
        ),
        (
            "model.layers.1.input_layernorm",
            r"cannot read 'att' from .*: the input of .* does not depend on",
        ),
        (
            "model.layers.0.mlp",
            r"model.layers.0.mlp is not in the last block, where 'att' is: give a path such as",
        ),
        (
            "model.layers.1.mlp.down_proj",
            r"cannot read 'att' from .* is not normalized as what its last feed-forward",
        ),
        (
            "model.norm",
            r"cannot check 'att' at model.norm: the model has 2 attention modules instead of one",
        ),
    ],
)
def test_a_path_that_cannot_be_att_is_refused(path: str, message: str) -> None:
    with pytest.raises(KnnlmError, match=message):
        StateReader(models.make("StableLm"), att_module=path)


def test_a_model_without_an_output_embedding_is_refused() -> None:
    with pytest.raises(
        KnnlmError, match=r"GPT2Model has no output embedding, so it predicts no tokens"
    ):
        StateReader(models.gpt2().transformer)


def test_a_parallel_block_is_found_out_even_if_it_is_listed_as_sequential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FAMILIES, "gpt_neox", Family("gpt_neox.layers", "attention", "mlp"))
    with pytest.raises(
        KnnlmError,
        match=r"cannot read 'att' from GPTNeoXForCausalLM: .* does not depend on the last att",
    ):
        StateReader(models.gpt_neox())


def test_a_path_to_the_wrong_module_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "gpt2", Family("transformer.h", "attn", "attn"))
    with pytest.raises(KnnlmError, match=r"cannot read 'att' from GPT2LMHeadModel"):
        StateReader(models.gpt2())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gpt_neox", {"norm": "input_layernorm"}),
        ("gptj", {"norm": None}),
        ("llama", {"feed_forward": "mlp.down_proj"}),
        ("olmo2", {"norm": None}),
        ("gemma2", {"feed_forward": "pre_feedforward_layernorm"}),
    ],
)
def test_a_wrong_line_of_the_table_is_found_out(
    name: str, wrong: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, name, FAMILIES[name]._replace(**wrong))  # type: ignore[arg-type]
    with pytest.raises(
        KnnlmError, match=r"cannot read 'att' from \w+: the .* is not normalized as what its last"
    ):
        StateReader(models.FAMILIES[name]())


def test_a_model_that_sees_what_it_predicts_is_refused() -> None:
    with pytest.raises(
        KnnlmError, match=r"BertLMHeadModel is not causal: its 'ffn' states change with tokens to"
    ):
        StateReader(models.make("Bert", is_decoder=False), ["ffn"])


@torch.inference_mode()
def test_large_states_of_half_precision_are_read() -> None:
    model = models.make("Llama")
    model.model.norm.weight.data.mul_(500)
    model.lm_head.weight.data.div_(500)
    with StateReader(model.half()) as reader:
        assert reader.read(models.some_tokens()).ffn.abs().max() > 1024


@torch.inference_mode()
def test_opt_that_normalizes_last_has_no_att_but_has_ffn() -> None:
    model = models.opt(do_layer_norm_before=False)
    with pytest.raises(
        KnnlmError,
        match=r"this OPT model normalizes after its feed-forward layer, so 'att' is not defined",
    ):
        StateReader(model)
    assert StateReader(model, ["ffn"]).widths() == {"ffn": 32}


@torch.inference_mode()
def test_opt_that_projects_its_states_before_the_head_gives_what_the_head_reads() -> None:
    model = models.opt(word_embed_proj_dim=24)
    reader = StateReader(model)
    assert reader.widths() == {"att": 32, "ffn": 24}


@pytest.mark.parametrize(
    "make", [lambda: models.granite(1.01), lambda: models.cohere(0.25), lambda: models.gemma2(5.0)]
)
def test_a_model_that_treats_its_logits_in_an_unknown_way_is_refused(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if we knew nothing of scales and caps; these logits are so small that the cap shows only
    on larger states."""
    monkeypatch.setattr(
        "knnlm.hidden_states.reader.model_logits", lambda m, ffn: m.get_output_embeddings()(ffn)
    )
    message = (
        r"cannot read 'ffn' from \w+: its output embedding does not give its logits \(off by .*\)"
    )
    with pytest.raises(KnnlmError, match=message):
        StateReader(make(), ["ffn"])


def test_a_model_that_gives_no_numbers_is_refused() -> None:
    model = models.gpt2()
    model.transformer.ln_f.weight.data[0] = float("nan")
    with pytest.raises(KnnlmError, match=r"cannot read 'ffn' from GPT2LMHeadModel"):
        StateReader(model, ["ffn"])
