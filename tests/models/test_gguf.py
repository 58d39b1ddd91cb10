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
    with pytest.raises(KnnlmError, match=r"reading .*tiny.gguf needs gguf: run pip install gguf"):
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
def tiny(llama: Path, tmp_path: Path) -> Path:
    lm = load_model(llama)
    write_gguf(tmp_path / "tiny.gguf", lm.model, lm.tokenizer)
    return tmp_path / "tiny.gguf"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNNLM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gguf"


def test_a_gguf_file_is_converted_once(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = load_model(tiny)
    (folder,) = cache.iterdir()
    assert "Converting" not in capfd.readouterr().err  # the bar of transformers
    moved = tiny.rename(tiny.with_name("moved.gguf"))

    def again(*_: object) -> None:
        raise AssertionError("converted again")

    monkeypatch.setattr("knnlm.models.gguf._convert", again)
    second = load_model(moved)  # its content counts, not its name
    assert second.fingerprint == first.fingerprint
    assert second.tokenizer_fingerprint == first.tokenizer_fingerprint
    assert second.identity() == first.identity()
    assert second.source == str(moved)
    assert list(cache.iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_is_named(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KNNLM_CACHE", str(tmp_path / "file"))
    with pytest.raises(KnnlmError, match=r"cannot hold the converted .* set KNNLM_CACHE to"):
        load_model(tiny)


def test_another_precision_or_file_is_converted_for_itself(
    tiny: Path, cache: Path, llama: Path
) -> None:
    load_model(tiny)
    half = load_model(tiny, precision="bfloat16")
    assert half.model.dtype == torch.bfloat16
    assert len(list(cache.iterdir())) == 2
    lm = load_model(llama)
    with torch.no_grad():
        lm.model.model.norm.weight.mul_(2)
    write_gguf(tiny, lm.model, lm.tokenizer)
    changed = load_model(tiny)
    assert len(list(cache.iterdir())) == 3
    assert changed.fingerprint != load_model(tiny, precision="bfloat16").fingerprint


@pytest.mark.parametrize("harm", ["cut", "flip", "remove", "unfinished"])
def test_a_damaged_conversion_is_made_again(
    tiny: Path, cache: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = load_model(tiny)
    (folder,) = cache.iterdir()
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    if harm == "cut":
        weights.write_bytes(content[:-100])
    elif harm == "flip":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif harm == "remove":
        weights.unlink()
    else:
        (folder / "converted.json").unlink()
    assert load_model(tiny).fingerprint == first.fingerprint
    assert weights.read_bytes() == content
    assert ("is damaged; converting the file again" in caplog.text) == (harm != "unfinished")
