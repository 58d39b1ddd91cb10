"""Opening a model folder: what it gives, what tells it from others, what is refused."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch

from knnlm.errors import KnnlmError
from knnlm.models.load import hide_transformers_progress, load_model, model_fingerprint


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def change_weights(folder: Path, change: Any) -> None:
    file = folder / "model.safetensors"
    weights = safetensors.torch.load_file(file)
    change(weights)
    safetensors.torch.save_file(weights, file, {"format": "pt"})


def test_a_folder_opens_for_reading_only_in_full_precision(tiny_model: Path) -> None:
    lm = load_model(tiny_model)
    assert not lm.model.training
    assert not any(p.requires_grad for p in lm.model.parameters())
    assert {p.dtype for p in lm.model.parameters()} == {torch.float32}


def test_a_model_stored_in_half_precision_is_read_in_full(folder: Path) -> None:
    change_weights(folder, lambda w: w.update({name: t.half() for name, t in w.items()}))
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"dtype": "float32"', '"dtype": "float16"'))
    assert {p.dtype for p in load_model(folder).model.parameters()} == {torch.float32}


@pytest.mark.parametrize("faster", [True, False])
def test_auto_is_the_stored_type_where_the_cpu_multiplies_it_faster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    load_model(folder, precision="bfloat16").model.save_pretrained(folder)
    monkeypatch.setattr("knnlm.models.load.multiplies_faster", lambda dtype: faster)
    lm = load_model(folder, device="cpu", precision="auto")
    chosen = "bfloat16" if faster else "float32"
    assert lm.model.dtype == getattr(torch, chosen)
    # as a datastore opens it again: in the type that it recorded
    assert lm.identity() == load_model(folder, precision=chosen).identity()


def test_auto_measures_no_products_for_a_model_in_full_precision(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.models.load.multiplies_faster", None)
    assert load_model(tiny_model, precision="auto").model.dtype == torch.float32


def test_a_model_knows_its_vocabulary_and_its_longest_input(tiny_model: Path) -> None:
    lm = load_model(tiny_model)
    assert lm.vocab_size == len(lm.tokenizer)
    assert lm.positions == 24


def test_its_identity_is_the_same_however_it_is_named(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_model.parent)
    by_name, by_path = load_model(tiny_model.name), load_model(tiny_model)
    assert by_name.identity() == by_path.identity()
    assert by_name.source == str(tiny_model.resolve())


def test_the_fingerprint_changes_with_one_weight(folder: Path) -> None:
    before = load_model(folder)
    change_weights(folder, lambda w: w["lm_head.weight"][3, 2].add_(1e-6))
    after = load_model(folder)
    assert before.fingerprint != after.fingerprint
    assert before.tokenizer_fingerprint == after.tokenizer_fingerprint


def test_the_fingerprint_sees_names_shapes_and_types_not_only_bytes() -> None:
    class Holder(torch.nn.Module):
        config = SimpleNamespace(to_dict=dict)

        def __init__(self, name: str, values: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer(name, values)

    zeros = torch.zeros(4)
    others = [("a", zeros), ("b", zeros), ("a", zeros.view(2, 2)), ("a", zeros.view(torch.int32))]
    assert len({model_fingerprint(Holder(name, values)) for name, values in others}) == 4
    assert model_fingerprint(Holder("a", zeros)) == model_fingerprint(Holder("a", zeros.clone()))


@pytest.mark.parametrize("missing", ["no-such-model", "no/such/folder"])
def test_a_missing_model_is_named(tmp_path: Path, missing: str) -> None:
    with pytest.raises(
        KnnlmError,
        match=rf"cannot open model {missing} \(.+\): give a model folder, a .gguf file, or a hub",
    ) as e:
        load_model(missing)
    assert "\n" not in str(e.value)


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        KnnlmError, match=r"is not a model folder \(no config.json\): give a folder written by"
    ):
        load_model(tmp_path)


def test_a_tokenizer_with_more_entries_than_the_model_predicts_is_refused(folder: Path) -> None:
    tokenizer = load_model(folder).tokenizer
    size = len(tokenizer)
    tokenizer.add_tokens(["one more"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(
        KnnlmError,
        match=rf"has {size + 1} entries but the model predicts only {size}: use the tokenizer",
    ):
        load_model(folder)


@pytest.mark.parametrize("damaged", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_damaged_file_is_one_sentence(folder: Path, damaged: str) -> None:
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:100])
    with pytest.raises(
        KnnlmError, match=r"cannot open model .*model \(.+\): give a model folder"
    ) as e:
        load_model(folder)
    assert "\n" not in str(e.value)


def test_missing_weights_are_one_sentence(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        KnnlmError,
        match=r"cannot open model .*no file named model.safetensors.*: give a model folder",
    ):
        load_model(folder)


def test_the_progress_of_transformers_is_hidden_and_its_setting_restored() -> None:
    from transformers.utils import logging

    for before in (True, False):
        (logging.enable_progress_bar if before else logging.disable_progress_bar)()
        with hide_transformers_progress():
            assert not logging.is_progress_bar_enabled()
        assert logging.is_progress_bar_enabled() == before
    logging.enable_progress_bar()
