"""A model whose states cannot be read is refused with the reason: never a silently different vector."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from knnlm.errors import KnnlmError
from knnlm.taps import FAMILIES, Tap
from knnlm.taps.families import Family
from tests.taps import models


@torch.inference_mode()
def test_a_parallel_block_has_no_att_but_has_ffn() -> None:
    model = models.gpt_neox()
    with pytest.raises(KnnlmError, match=r"'att' is not defined yet for gpt_neox models \(known: .*\): use --keys ffn"):
        Tap(model)
    ids = models.some_tokens()
    tap = Tap(model, ["ffn"])
    torch.testing.assert_close(tap.logits(tap.read(ids).ffn), model(input_ids=ids).logits)


def test_a_parallel_block_is_found_out_even_if_it_is_listed_as_sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "gpt_neox", Family("gpt_neox.layers", "mlp", "attention"))
    with pytest.raises(
        KnnlmError, match=r"cannot read 'att' from GPTNeoXForCausalLM: .* does not depend on the last att"
    ):
        Tap(models.gpt_neox())


def test_a_path_to_the_wrong_module_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "gpt2", Family("transformer.h", "attn", "attn"))
    with pytest.raises(KnnlmError, match=r"cannot read 'att' from GPT2LMHeadModel"):
        Tap(models.gpt2())


@torch.inference_mode()
def test_opt_that_normalises_last_has_no_att_but_has_ffn() -> None:
    model = models.opt(do_layer_norm_before=False)
    with pytest.raises(
        KnnlmError, match=r"this OPT model normalises after its feed-forward layer, so 'att' is not defined"
    ):
        Tap(model)
    assert Tap(model, ["ffn"]).widths() == {"ffn": 32}


@torch.inference_mode()
def test_opt_that_projects_its_states_before_the_head_gives_what_the_head_reads() -> None:
    model = models.opt(word_embed_proj_dim=24)
    tap = Tap(model)
    assert tap.widths() == {"att": 32, "ffn": 24}


@pytest.mark.parametrize("make", [models.llama, lambda: models.granite(1.0), lambda: models.gemma2(None)])
def test_any_model_whose_logits_are_its_heads_gives_ffn(make: Callable[[], Any]) -> None:
    assert Tap(make(), ["ffn"]).widths() == {"ffn": 32}


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: models.granite(8.0), "Granite"),
        (lambda: models.granite(1.01), "Granite"),
        (lambda: models.cohere(0.0625), "Cohere"),
        (lambda: models.gemma2(5.0), "Gemma2"),
    ],
)
def test_a_model_that_scales_or_caps_its_logits_is_refused(make: Callable[[], Any], name: str) -> None:
    message = rf"cannot read 'ffn' from {name}ForCausalLM: its output embedding does not give its logits \(off by .*\)"
    with pytest.raises(KnnlmError, match=message):
        Tap(make(), ["ffn"])


def test_a_model_that_gives_no_numbers_is_refused() -> None:
    model = models.gpt2()
    model.transformer.ln_f.weight.data[0] = float("nan")
    with pytest.raises(KnnlmError, match=r"cannot read 'ffn' from GPT2LMHeadModel"):
        Tap(model, ["ffn"])
