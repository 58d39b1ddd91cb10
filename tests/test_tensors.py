"""Tensors in a file that knows when it is damaged."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from knnlm.errors import DamagedError
from knnlm.tensors import read_note, read_tensors, save_tensors

TENSORS = {"b": torch.arange(60.0).reshape(3, 20), "a": torch.tensor(7), "none": torch.zeros(0, 4)}
NOTE: dict[str, Any] = {
    "recipe": 'quoted "xxh3": "0000000000000000"',
    "loss": float("inf"),
    "x": [1],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_tensors(tmp_path / "run" / "last.safetensors", TENSORS, NOTE)
    return tmp_path / "run" / "last.safetensors"


def refused(file: Path, **options: bool) -> None:
    sentence = (
        r"last.safetensors is damaged.*: delete .*run and run the same command again to start"
    )
    with pytest.raises(DamagedError, match=sentence):
        read_tensors(file, **options)
    with pytest.raises(DamagedError, match=sentence):
        read_note(file)


def test_all_of_it_comes_back(file: Path) -> None:
    tensors, note = read_tensors(file)
    assert note == read_note(file) == NOTE
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_other_programs_can_read_it(file: Path) -> None:
    assert safetensors.torch.load_file(file).keys() == TENSORS.keys()


@pytest.mark.parametrize("checksum_required", [True, False])
def test_every_flipped_bit_is_detected(file: Path, checksum_required: bool) -> None:
    good = file.read_bytes()
    names_the_checksum = range(start := good.index(b"xxh3"), start + 4)
    for bit in range(len(good) * 8):
        if not checksum_required and bit // 8 in names_the_checksum:
            continue  # then it is called otherwise, and nothing else has changed
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        refused(file, checksum_required=checksum_required)


def test_every_truncation_and_every_appended_byte_is_detected(file: Path) -> None:
    good = file.read_bytes()
    for bad in (*(good[:length] for length in range(len(good))), good + b"\0"):
        file.write_bytes(bad)
        refused(file)


def test_a_stretch_of_zeros_is_detected(file: Path) -> None:
    good, chance = file.read_bytes(), random.Random(0)
    for _ in range(100):
        start = chance.randrange(len(good) - 64)
        bad = good[:start] + bytes(64) + good[start + 64 :]
        if bad != good:
            file.write_bytes(bad)
            refused(file)


def test_a_file_of_an_earlier_version_is_read_only_where_it_is_checked_elsewhere(
    file: Path,
) -> None:
    file.write_bytes(safetensors.torch.save(TENSORS, {"note": json.dumps(NOTE)}))
    assert read_tensors(file, checksum_required=False)[1] == NOTE
    with pytest.raises(DamagedError, match=r"last.safetensors is damaged \(it has no checksum\):"):
        read_tensors(file)
    with pytest.raises(DamagedError, match=r"last.safetensors is damaged \(it has no checksum\):"):
        read_note(file)


@pytest.mark.parametrize("note", ["3", '"text"', "[1]", "{", '{"xxh3": 5}', '{"xxh3": "\\""}'])
def test_a_note_that_is_none_of_ours_is_damage(file: Path, note: str) -> None:
    file.write_bytes(safetensors.torch.save(TENSORS, {"note": note}))
    refused(file)
