"""Models are saved whole: with the usual mode, on disk before they take their names, or refused."""

import dataclasses
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import changed_file, write_json
from knnlm.models.load import hide_transformers_progress, load_model
from knnlm.models.presets import SMOKE, new_model
from knnlm.models.saving import CHECKPOINTS, TRAINING_RECORD, compare_with_record, save_model
from tests.hostile import mutations, sealed_file, survive

SIZED = {"bytes": 1, "xxh3": "0" * 16}
NAMES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    preset = dataclasses.replace(SMOKE, width=16, layers=1, heads=2, context=16)
    return new_model(preset, 300, 0)


def save(folder: Path, *parts: Any) -> dict[str, dict[str, Any]]:
    with hide_transformers_progress():
        return save_model(folder, *parts)


def test_what_is_saved_is_described_and_nothing_else_is_there(
    tmp_path: Path, model: Any, tokenizer: Any
) -> None:
    saved = save(tmp_path / "new" / "m", model, tokenizer)
    assert saved.keys() == {file.name for file in (tmp_path / "new" / "m").iterdir()} == NAMES
    assert changed_file(tmp_path / "new" / "m", saved) is None
    assert load_model(tmp_path / "new" / "m").vocab_size == 300


def test_files_have_the_mode_that_the_user_gives_new_files(
    tmp_path: Path, model: Any, tokenizer: Any
) -> None:
    before = os.umask(0o022)
    try:
        save(tmp_path / "m", model, tokenizer)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "m").iterdir()}
    assert modes == dict.fromkeys(NAMES, 0o644)


def test_every_file_is_flushed_before_it_takes_its_name_and_then_the_folder(
    tmp_path: Path, model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, renamed = set(), []
    replace = os.replace

    def rename(old: Path, new: Path) -> None:
        assert os.stat(old).st_ino in flushed
        renamed.append(Path(new))
        flushed.discard(tmp_path.joinpath("m").stat().st_ino)
        replace(old, new)

    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", rename)
    save(tmp_path / "m", model, tokenizer)
    assert {file.name for file in renamed} == NAMES
    assert renamed[-1].name == "config.json"  # without it the folder is no model
    assert (tmp_path / "m").stat().st_ino in flushed


def test_what_a_killed_run_left_is_deleted_by_the_next(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.replace

    def killed(old: Path, new: Path) -> None:
        if Path(new).name == "model.safetensors":
            shutil.copytree(Path(old).parent, tmp_path / "kept")
            raise KeyboardInterrupt
        really(old, new)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "m", model)
    assert not (tmp_path / "m" / "config.json").exists()
    monkeypatch.undo()
    (tmp_path / "kept").rename(tmp_path / "m" / ".unfinished")  # as a kill leaves it
    save(tmp_path / "m", model)
    assert {file.name for file in (tmp_path / "m").iterdir()} == {
        name for name in NAMES if "tokenizer" not in name
    }


class OnAFullDisk:
    """A part one of whose files is on a device that is full."""

    def __init__(self, part: Any, name: str) -> None:
        self.part, self.name = part, name

    def save_pretrained(self, folder: Path) -> None:
        (folder / self.name).symlink_to("/dev/full")
        self.part.save_pretrained(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_disk_that_is_full_for_a_tokenizer_is_one_sentence(
    tmp_path: Path, tokenizer: Any, name: str
) -> None:
    with pytest.raises(KnnlmError, match="the disk under .*m is full: free some space"):
        save(tmp_path / "m", OnAFullDisk(tokenizer, name))
    assert list((tmp_path / "m").iterdir()) == []
    save(tmp_path / "m", tokenizer)
    assert (tmp_path / "m" / name).is_file()


def test_a_disk_that_is_full_for_the_weights_is_one_sentence(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise Exception(f"Error while serializing: I/O error: No space (os error {errno.ENOSPC})")

    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", full)
    with pytest.raises(KnnlmError, match="the disk under .*m is full: free some space"):
        save(tmp_path / "m", model)
    assert list((tmp_path / "m").iterdir()) == []


def test_a_link_instead_of_the_unfinished_folder_is_not_emptied(
    tmp_path: Path, tokenizer: Any
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / ".unfinished").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KnnlmError, match=r"m/.unfinished is a symbolic link, and nothing is"):
        save(tmp_path / "m", tokenizer)
    assert [file.name for file in (tmp_path / "elsewhere").iterdir()] == ["precious"]


@pytest.fixture
def trained(tmp_path: Path, model: Any, tokenizer: Any) -> Path:
    """A model with a checkpoint and the record of a training."""
    out = tmp_path / "m"
    files = save(out, model, tokenizer)
    for name, file in save(out / CHECKPOINTS / "10", model, tokenizer).items():
        files[f"{CHECKPOINTS}/10/{name}"] = file
    write_json(out / TRAINING_RECORD, {"recipe": "r", "files": files})
    return out


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("where", [".", f"{CHECKPOINTS}/10"])
@pytest.mark.parametrize("harm", [flip, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_model_that_is_not_what_its_record_names_is_refused(
    trained: Path, where: str, harm: Callable[[Path], object], name: str
) -> None:
    load_model(trained / where)
    harm(trained / where / name)
    file = trained / name if where == "." else trained / where / name
    if name == "config.json" and not file.exists():
        sentence = "is not a model folder"
    else:
        sentence = f"^{file} is not the file that training.json names: restore it from a copy, or"
    with pytest.raises(KnnlmError, match=sentence) as told:
        load_model(trained / where)
    assert "\n" not in str(told.value)
    load_model(trained if where != "." else trained / CHECKPOINTS / "10")  # the other one is whole


def test_a_model_that_was_trained_by_an_earlier_version_opens(trained: Path) -> None:
    write_json(trained / TRAINING_RECORD, {"recipe": "r"})
    load_model(trained)
    load_model(trained / CHECKPOINTS / "10")


def test_a_copy_of_a_checkpoint_opens(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / CHECKPOINTS / "10", tmp_path / "copy")
    load_model(tmp_path / "copy")


def test_a_record_that_is_damaged_is_refused_and_a_strangers_is_not_read(trained: Path) -> None:
    record = trained / TRAINING_RECORD
    good = record.read_text()
    for harm in (good[:-20], good.replace('"recipe": "r"', '"recipe": "s"')):
        record.write_text(harm)
        with pytest.raises(DamagedError, match=r"training.json is damaged .*: restore or rebuild"):
            load_model(trained)
    record.write_text('{"epochs": 3, "files": {"model.safetensors": 1}}')
    load_model(trained)


def test_the_record_of_somebody_else_is_followed_nowhere(tmp_path: Path, model: Any) -> None:
    record = tmp_path / TRAINING_RECORD
    saved = save(tmp_path, model)
    write_json(record, {"recipe": "r", "files": {**saved, "checkpoints/4/config.json": SIZED}})
    fields, write = sealed_file(record)
    assert (
        survive(fields, mutations(fields, 400), write, lambda: compare_with_record(tmp_path)) > 200
    )
    for name in ("../config.json", "/etc/passwd", "a/../../b", ".hidden", "a//b"):
        write_json(record, {"recipe": "r", "files": {name: SIZED}})
        with pytest.raises(DamagedError, match="is not a path of plain names below the folder"):
            compare_with_record(tmp_path)
    record.write_text("[" * 100_000)
    with pytest.raises(DamagedError, match=r"training\.json is damaged"):
        compare_with_record(tmp_path)
