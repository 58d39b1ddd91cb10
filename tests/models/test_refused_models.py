"""Models that cannot be used are refused in one sentence, and foreign code is never run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers

from knnlm import KNNLM, Datastore
from knnlm.errors import KnnlmError, UsageError
from knnlm.models.load import load_model
from tests.hidden_states import models


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": "wide"},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence(
    llama: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = shutil.copytree(llama, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(KnnlmError, match=r"cannot open model .* \(.+\): give a model folder"):
        load_model(folder)


def test_foreign_code_is_neither_run_nor_asked_about(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(llama, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('ran')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    with pytest.raises(KnnlmError, match="cannot open model"):
        load_model(folder)


def test_an_unknown_precision_or_device_is_refused(llama: Path) -> None:
    with pytest.raises(UsageError, match="unknown precision 'float8'"):
        load_model(llama, precision="float8")
    with pytest.raises(UsageError, match="unknown device 'tpu0': choose cpu, cuda or cuda:N"):
        load_model(llama, device="tpu0")


def test_a_sequence_to_sequence_model_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    sizes = {
        "d_model": 16,
        "d_ff": 32,
        "d_kv": 8,
        "num_layers": 1,
        "num_heads": 2,
        "vocab_size": 300,
    }
    transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).save_pretrained(
        tmp_path
    )
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(
        KnnlmError, match=r"is a sequence-to-sequence model \(t5\): give a causal LM"
    ):
        load_model(tmp_path)


def test_a_model_without_a_head_is_refused_not_given_a_random_one(
    tmp_path: Path, tokenizer: Any
) -> None:
    models.make("Llama").model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(
        KnnlmError, match=r"lacks weights of a causal LM \(lm_head.weight\), which would be random"
    ):
        load_model(tmp_path)


def test_a_saved_knn_lm_is_not_a_base_model(
    llama: Path, tmp_path: Path, texts: dict[str, Path]
) -> None:
    store = Datastore.build(llama, texts["valid"], tmp_path / "store")
    model = KNNLM(store, lam=0.3, tau=1.0)
    model.to_transformers().save_pretrained(tmp_path / "saved")
    model.tokenizer.save_pretrained(tmp_path / "saved")
    with pytest.raises(
        KnnlmError, match="is a saved kNN-LM: give its base model, or open it with from_pretrained"
    ):
        load_model(tmp_path / "saved")
