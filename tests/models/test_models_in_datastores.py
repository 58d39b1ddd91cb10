"""What a datastore records of the model that it was built with."""

from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm import KNNLM, Datastore
from knnlm.models.load import load_model
from tests.hidden_states import models


def test_the_manifest_records_the_tokenizers_rules(
    llama: Path, tmp_path: Path, texts: dict[str, Path]
) -> None:
    model = Datastore.build(llama, texts["valid"], tmp_path / "store").entries.meta["model"]
    assert model["bos"] == 0
    assert model["document_starts_with"] == "bos"
    assert {"special_tokens", "padding"} <= set(model)


def test_an_unknown_architecture_is_stored_with_ffn_and_it_is_said(
    tmp_path: Path, tokenizer: Any, texts: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    models.make("StableLm").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    store = Datastore.build(tmp_path / "model", texts["valid"], tmp_path / "store")
    assert store.keys == ("ffn",)
    assert (
        "storing 'ffn' states only: where 'att' is in stablelm models is not known" in caplog.text
    )
    named = Datastore.build(
        tmp_path / "model", texts["valid"], tmp_path / "named", att_module="model.layers.1.mlp"
    )
    assert named.keys == ("att", "ffn")
    given: dict[str, Any] = {"lam": 0.3, "tau": 1.0}
    assert KNNLM(named, key="att", k=8, **given).evaluate(texts["test"]).tokens > 0
    retrieval = KNNLM(named, **given).to_transformers().config.tuned.retrieval
    assert retrieval is not None
    assert retrieval.key == "att"


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "auto"])
def test_precision_is_chosen_and_remembered(
    llama: Path, tmp_path: Path, texts: dict[str, Path], precision: str
) -> None:
    lm = load_model(llama, precision=precision)
    kind = torch.float32 if precision == "auto" else getattr(torch, precision)
    assert {p.dtype for p in lm.model.parameters()} == {kind}
    store = Datastore.build(llama, texts["valid"], tmp_path / "store", precision=precision)
    assert store.entries.meta["model"]["precision"] == str(kind).removeprefix("torch.")
    opened = Datastore.open(store.path)  # the model is opened again, in the recorded precision
    model = KNNLM(opened, k=8, lam=0.3, tau=1.0)
    assert model.to_transformers().base.dtype == kind
    assert model.evaluate(texts["test"]).interp_ppl > 0
