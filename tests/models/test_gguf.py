"""Models in GGUF files."""

import importlib.util
from pathlib import Path

import pytest
import torch

from knnlm import KNNLM, Datastore
from knnlm.errors import KnnlmError
from knnlm.models.load import load_model
from tests.models.gguf_file import write_gguf


@torch.inference_mode()
def test_a_gguf_file_is_the_model_that_it_was_made_from(
    llama: Path, ids: torch.Tensor, tmp_path: Path
) -> None:
    original = load_model(llama)
    write_gguf(tmp_path / "tiny.gguf", original.model, original.tokenizer)
    opened = load_model(tmp_path / "tiny.gguf")
    assert opened.source == str(tmp_path / "tiny.gguf")
    assert opened.tokenizer("the cat sat on a mat.\n").input_ids == ids[0].tolist()
    torch.testing.assert_close(
        opened.model(input_ids=ids).logits, original.model(input_ids=ids).logits
    )


def test_a_gguf_file_makes_a_store_and_generates(
    llama: Path, tmp_path: Path, texts: dict[str, Path]
) -> None:
    lm = load_model(llama)
    write_gguf(tmp_path / "tiny.gguf", lm.model, lm.tokenizer)
    Datastore.build(tmp_path / "tiny.gguf", texts["valid"], tmp_path / "store")
    model = KNNLM(tmp_path / "store", lam=0.3, tau=1.0)
    prompt = model.tokenizer("the cat", return_tensors="pt")
    ids = model.to_transformers().generate(**prompt, max_new_tokens=3, do_sample=False)
    assert ids.shape[1] == prompt.input_ids.shape[1] + 3


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
