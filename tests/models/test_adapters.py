"""PEFT adapters are merged into a model's weights; those that do not fit are refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

from knnlm import KNNLM, Datastore
from knnlm.errors import KnnlmError
from knnlm.models.load import load_model
from tests.hidden_states import models


@pytest.fixture
def adapter(llama: Path, tmp_path: Path) -> Path:
    """A LoRA adapter with weights that matter."""
    import peft

    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(llama)
    options = peft.LoraConfig(
        r=2, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False
    )
    peft.get_peft_model(model, options).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


@torch.inference_mode()
def test_an_adapter_is_applied_and_remembered(
    llama: Path, adapter: Path, ids: torch.Tensor, tmp_path: Path, texts: dict[str, Path]
) -> None:
    import peft

    base = transformers.AutoModelForCausalLM.from_pretrained(llama)
    plain = base(input_ids=ids).logits
    wanted = peft.PeftModel.from_pretrained(base, str(adapter)).eval()(input_ids=ids).logits
    merged = load_model(llama, adapter=adapter)
    torch.testing.assert_close(merged.model(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(merged.model(input_ids=ids).logits, plain, atol=1e-3)
    assert merged.fingerprint != load_model(llama).fingerprint

    store = Datastore.build(llama, texts["valid"], tmp_path / "store", adapter=adapter)
    plain_lm: dict[str, Any] = {"lam": 0.0, "tau": 1.0}
    model = KNNLM(store.path, **plain_lm).to_transformers()  # opened again without being named
    torch.testing.assert_close(
        model(input_ids=ids).logits, wanted.log_softmax(-1), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(KnnlmError, match="was built with another model"):
        KNNLM(store, model=load_model(llama), **plain_lm).to_transformers()


def test_an_adapter_whose_weights_do_not_fit_is_refused(llama: Path, adapter: Path) -> None:
    file = adapter / "adapter_model.safetensors"
    weights = safetensors.torch.load_file(file)
    first = min(weights)
    safetensors.torch.save_file({name: w for name, w in weights.items() if name != first}, file)
    with pytest.raises(
        KnnlmError, match=r"does not fit this model \(1 weights missing, 0 too many, such as .*\)"
    ):
        load_model(llama, adapter=adapter)
    renamed = {name.replace("layers.0", "layers.7"): w for name, w in weights.items()}
    safetensors.torch.save_file(renamed, file)
    with pytest.raises(
        KnnlmError, match=r"does not fit this model \(\d+ weights missing, \d+ too many"
    ):
        load_model(llama, adapter=adapter)


def test_a_kind_of_adapter_that_cannot_be_merged_is_refused(llama: Path, tmp_path: Path) -> None:
    import peft

    model = transformers.AutoModelForCausalLM.from_pretrained(llama)
    options = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    peft.get_peft_model(model, options).save_pretrained(tmp_path / "prompt")
    with pytest.raises(
        KnnlmError, match=r"\(PROMPT_TUNING\) cannot be merged into weights|cannot apply adapter"
    ):
        load_model(llama, adapter=tmp_path / "prompt")


def test_an_adapter_that_is_not_there_is_named(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.models.adapters.hub_is_reachable", lambda: False)
    with pytest.raises(
        KnnlmError, match="there is no folder nowhere, and no network to look for it on the hub"
    ):
        load_model(llama, adapter="nowhere")


def test_what_is_no_adapter_is_refused(llama: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(KnnlmError, match=r"is not a PEFT adapter \(no adapter_config.json\)"):
        load_model(llama, adapter=llama)
    with pytest.raises(
        KnnlmError,
        match=r"it is a PEFT adapter: give the base model, and this folder as its adapter",
    ):
        load_model(adapter)
    models.make("Llama", hidden_size=16).save_pretrained(tmp_path / "small")
    shutil.copy(llama / "tokenizer.json", tmp_path / "small")
    with pytest.raises(
        KnnlmError, match=r"cannot apply adapter .* to this model \(.+\): was it made for it\?"
    ):
        load_model(tmp_path / "small", adapter=adapter)
