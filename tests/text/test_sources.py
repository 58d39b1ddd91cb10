"""Models from anywhere: GGUF files, PEFT adapters, other precisions; what cannot be opened is said
in a sentence."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

import knnlm
from knnlm.errors import KnnlmError, UsageError
from knnlm.models.load import load_model
from knnlm.text.tokenizer import train_tokenizer
from tests.conftest import prose
from tests.hidden_states import models
from tests.models.gguf_file import write_gguf

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([prose(0, 400)], models.VOCABULARY)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    """A folder with a tiny Llama."""
    folder = tmp_path_factory.mktemp("llama")
    models.make("Llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def ids(tokenizer: Any) -> torch.Tensor:
    found: torch.Tensor = tokenizer("the cat sat on a mat.\n", return_tensors="pt").input_ids
    return found


@torch.inference_mode()
def test_a_gguf_file_is_the_model_that_it_was_made_from(
    llama: Path, ids: torch.Tensor, tmp_path: Path
) -> None:
    wanted = load_model(llama)
    write_gguf(tmp_path / "tiny.gguf", wanted.model, wanted.tokenizer)
    found = load_model(tmp_path / "tiny.gguf")
    assert found.source == str(tmp_path / "tiny.gguf")
    assert found.tokenizer("the cat sat on a mat.\n").input_ids == ids[0].tolist()
    torch.testing.assert_close(
        found.model(input_ids=ids).logits, wanted.model(input_ids=ids).logits
    )


def test_a_gguf_file_makes_a_store_and_generates(
    llama: Path, tmp_path: Path, texts: dict[str, Path]
) -> None:
    lm = load_model(llama)
    write_gguf(tmp_path / "tiny.gguf", lm.model, lm.tokenizer)
    store = knnlm.build(tmp_path / "tiny.gguf", tmp_path / "store", texts["valid"])
    model, tokenizer = knnlm.load(store, lam=0.3, temperature=1.0)
    prompt = tokenizer("the cat", return_tensors="pt")
    assert (
        model.generate(**prompt, max_new_tokens=3, do_sample=False).shape[1]
        == prompt.input_ids.shape[1] + 3
    )


def test_without_its_extra_a_gguf_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "gguf" else real(name, *a)
    )
    with pytest.raises(
        KnnlmError, match=r"reading .*tiny.gguf needs gguf: run pip install 'knnlm\[gguf\]'"
    ):
        load_model(tmp_path / "tiny.gguf")


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_a_broken_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.gguf").write_bytes(content)
    with pytest.raises(
        KnnlmError,
        match=r"cannot open model .*broken.gguf \(.+\): give a model folder, a .gguf file",
    ):
        load_model(tmp_path / "broken.gguf")


def test_a_gguf_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        KnnlmError,
        match=r"there is no file .*none.gguf: give the path of a .gguf file, or ORG/REPO",
    ):
        load_model(tmp_path / "none.gguf")


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
    found = load_model(llama, adapter=adapter)
    torch.testing.assert_close(found.model(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found.model(input_ids=ids).logits, plain, atol=1e-3)
    assert found.fingerprint != load_model(llama).fingerprint

    store = knnlm.build(llama, tmp_path / "store", texts["valid"], adapter=adapter)
    model, _ = knnlm.load(store, lam=0.0, temperature=1.0)  # found again without being named
    torch.testing.assert_close(
        model(input_ids=ids).logits, wanted.log_softmax(-1), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(KnnlmError, match="was built with another model"):
        knnlm.load(store, model=load_model(llama), lam=0.0, temperature=1.0)


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
    monkeypatch.setattr("knnlm.models.load._hub_is_known", lambda: False)
    with pytest.raises(
        KnnlmError, match="there is no folder nowhere, and no network to look for it on the hub"
    ):
        load_model(llama, adapter="nowhere")


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


def test_what_is_no_adapter_is_refused(llama: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(KnnlmError, match=r"is not a PEFT adapter \(no adapter_config.json\)"):
        load_model(llama, adapter=llama)
    with pytest.raises(
        KnnlmError,
        match=r"it is a PEFT adapter: give the base model, and this folder with --adapter",
    ):
        load_model(adapter)
    models.make("Llama", hidden_size=16).save_pretrained(tmp_path / "small")
    shutil.copy(llama / "tokenizer.json", tmp_path / "small")
    with pytest.raises(
        KnnlmError, match=r"cannot apply adapter .* to this model \(.+\): was it made for it\?"
    ):
        load_model(tmp_path / "small", adapter=adapter)


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
    store = knnlm.build(llama, tmp_path / "store", texts["valid"])
    loaded = knnlm.load(store, lam=0.3, temperature=1.0)
    loaded.model.save_pretrained(tmp_path / "saved")
    loaded.tokenizer.save_pretrained(tmp_path / "saved")
    with pytest.raises(
        KnnlmError, match="is a saved kNN-LM: give its base model, or open it with from_pretrained"
    ):
        load_model(tmp_path / "saved")


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
