"""The files of a trained model: on disk before the record says so, and compared with it."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json, write_json
from knnlm.models import CHECKPOINTS
from knnlm.models import TRAINING_RECORD as RECORD
from knnlm.training.language_model import RUN
from tests.training.training import TINY, Texts

pytestmark = [pytest.mark.pipeline, pytest.mark.usefixtures("one_thread")]


MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def test_the_record_names_every_file_of_the_models(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "m", dataclasses.replace(TINY, keep=(10,)))
    files = read_json(tmp_path / "m" / RECORD)["files"]
    assert sorted(files) == sorted([*MODEL_FILES, *(f"{CHECKPOINTS}/10/{n}" for n in MODEL_FILES)])
    for name, described in files.items():
        file = tmp_path / "m" / name
        assert described == {"bytes": file.stat().st_size, "xxh3": checksum_file(file)}


def test_all_files_are_on_disk_before_the_record_is(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    replace = os.replace

    def rename(old: Path, new: Path) -> None:
        if Path(new).name == RECORD:
            files = [tmp_path / "m" / name for name in MODEL_FILES]
            assert all(file.stat().st_ino in flushed for file in [*files, tmp_path / "m"])
        replace(old, new)

    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", rename)
    prose.into(tmp_path / "m")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", f"{CHECKPOINTS}/10/x"])
@pytest.mark.parametrize("run", ["is kept", "was deleted"])
def test_a_finished_model_that_is_damaged_is_not_trained_already(
    tmp_path: Path, prose: Texts, name: str, run: str
) -> None:
    name = name.replace("/x", "/model.safetensors")
    preset = dataclasses.replace(TINY, keep=(10,))
    first = prose.into(tmp_path / "m", preset)
    file = tmp_path / "m" / name
    good = file.read_bytes()
    file.write_bytes(b"")
    advice = "m/training.json and run the same command again to write it again"
    if run == "was deleted":
        shutil.rmtree(tmp_path / "m" / RUN)
        advice = "m and run the same command again to train again"
    sentence = rf"{name} is not the file that training.json names: restore it .*{advice}$"
    with pytest.raises(DamagedError, match=sentence):
        prose.into(tmp_path / "m", preset)
    assert file.read_bytes() == b""
    if run == "is kept":
        (tmp_path / "m" / RECORD).unlink()
        prose.into(tmp_path / "m", preset)
    else:
        file.write_bytes(good)
        assert prose.into(tmp_path / "m", preset) == first
    assert file.read_bytes() == good


def test_a_model_of_an_earlier_version_is_trained_already(tmp_path: Path, prose: Texts) -> None:
    first = prose.into(tmp_path / "m")
    record = read_json(tmp_path / "m" / RECORD)
    del record["files"]
    write_json(tmp_path / "m" / RECORD, record)
    assert prose.into(tmp_path / "m") == first


def test_a_full_disk_while_the_tokenizer_is_saved_is_one_sentence(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    really = transformers.PreTrainedTokenizerFast.save_pretrained

    def full(tokenizer: Any, folder: Path, *given: Any, **named: Any) -> Any:
        (Path(folder) / "tokenizer.json").symlink_to("/dev/full")
        return really(tokenizer, folder, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedTokenizerFast, "save_pretrained", full)
        with pytest.raises(KnnlmError, match="the disk under .*m is full: free some space"):
            prose.into(tmp_path / "m")
    assert prose.into(tmp_path / "m").steps == TINY.steps
