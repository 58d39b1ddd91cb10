"""What a datastore records of the model that it was built with."""

from pathlib import Path
from typing import Any

import pytest
import torch

import knnlm
from knnlm.models.load import load_model
from tests.hidden_states import models


def test_the_manifest_records_the_tokenizers_rules(
    llama: Path, tmp_path: Path, texts: dict[str, Path]
) -> None:
    model = knnlm.build(llama, tmp_path / "store", texts["valid"]).meta["model"]
    assert model["bos"] == 0
    assert model["document_starts_with"] == "bos"
    assert {"special_tokens", "padding"} <= set(model)


def test_an_unknown_architecture_is_stored_with_ffn_and_it_is_said(
    tmp_path: Path, tokenizer: Any, texts: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    models.make("StableLm").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    store = knnlm.build(tmp_path / "model", tmp_path / "store", texts["valid"])
    assert store.keys == ("ffn",)
    assert (
        "storing 'ffn' states only: where 'att' is in stablelm models is not known" in caplog.text
    )
    named = knnlm.build(
        tmp_path / "model", tmp_path / "named", texts["valid"], att_module="model.layers.1.mlp"
    )
    assert named.keys == ("att", "ffn")
    _, evaluation = knnlm.evaluate(named, texts["test"], lam=0.3, temperature=1.0, key="att", k=8)
    assert evaluation.tokens > 0
    assert knnlm.load(named, lam=0.3, temperature=1.0).model.config.retrieval.key == "att"


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "auto"])
def test_precision_is_chosen_and_remembered(
    llama: Path, tmp_path: Path, texts: dict[str, Path], precision: str
) -> None:
    lm = load_model(llama, precision=precision)
    kind = torch.float32 if precision == "auto" else getattr(torch, precision)
    assert {p.dtype for p in lm.model.parameters()} == {kind}
    store = knnlm.build(llama, tmp_path / "store", texts["valid"], precision=precision)
    assert store.meta["model"]["precision"] == str(kind).removeprefix("torch.")
    model, _ = knnlm.load(store, lam=0.3, temperature=1.0)
    assert model.base.dtype == kind
    _, evaluation = knnlm.evaluate(store, texts["test"], lam=0.3, temperature=1.0, k=8)
    assert evaluation.interp_ppl > 0
