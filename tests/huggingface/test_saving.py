"""save_pretrained and from_pretrained: the weights, and a reference to the store that is checked
before it is used."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from knnlm.errors import KnnlmError
from knnlm.huggingface import KNNLMForCausalLM
from tests.hidden_states import models
from tests.huggingface.making import GREEDY, PROMPTS, Made, alone, greedy_by_hand, knn_lm

pytestmark = pytest.mark.pipeline


@pytest.fixture(params=["gpt2", "opt", "llama", "gemma2", "falcon"])  # tied and untied heads
def made(request: pytest.FixtureRequest, text: Path, tokenizer: Any, tmp_path: Path) -> Made:
    return knn_lm(models.FAMILIES[request.param](), tokenizer, text, tmp_path / "store")


def test_a_round_trip_generates_the_same(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    assert isinstance(again, KNNLMForCausalLM)
    wanted = greedy_by_hand(made, PROMPTS[0])
    assert again.generate(**alone(PROMPTS[0]), **GREEDY)[0].tolist() == wanted
    again.save_pretrained(tmp_path / "twice")
    twice = KNNLMForCausalLM.from_pretrained(tmp_path / "twice")
    assert twice.generate(**alone(PROMPTS[0]), **GREEDY)[0].tolist() == wanted


def test_a_loaded_model_is_frozen_and_knows_its_precision(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    assert not again(input_ids=torch.tensor([PROMPTS[0]])).logits.requires_grad
    half = KNNLMForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.bfloat16)
    with pytest.raises(
        KnnlmError, match=r"was built in float32 but this model is in torch.bfloat16: open it"
    ):
        half(input_ids=torch.tensor([PROMPTS[0]]))


def test_only_weights_and_a_reference_are_saved(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    names = {p.name for p in (tmp_path / "saved").iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors"}
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["store"] == str(made.store.path)
    assert config["store_fingerprint"] == made.store.fingerprint
    assert config["knn"]["lambda"] == made.tuned.lam


def test_a_store_that_moved_is_named_anew(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    shutil.move(made.store.path, tmp_path / "elsewhere")
    lost = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    with pytest.raises(KnnlmError, match="is not there|there is no"):
        lost(input_ids=torch.tensor([PROMPTS[0]]))
    found = KNNLMForCausalLM.from_pretrained(tmp_path / "saved", store=str(tmp_path / "elsewhere"))
    assert found.generate(**alone(PROMPTS[0]), **GREEDY).shape == (1, 13)


def test_a_store_that_changed_is_refused(
    made: Made, text: Path, tokenizer: Any, tmp_path: Path
) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    other = tmp_path / "other.txt"
    other.write_text(text.read_text() + "more.\n")
    changed = knn_lm(made.lm.model, tokenizer, other, tmp_path / "changed")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved", store=str(changed.store.path))
    with pytest.raises(KnnlmError, match="has changed since this kNN-LM was saved: restore"):
        again(input_ids=torch.tensor([PROMPTS[0]]))
    assert other.exists()


def test_weights_that_changed_are_refused(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path / "saved")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    again.get_output_embeddings().weight.data[0, 0] += 1
    with pytest.raises(
        KnnlmError, match=r"was built with another model \(tiny\) than .*saved: use that model"
    ):
        again(input_ids=torch.tensor([PROMPTS[0]]))
