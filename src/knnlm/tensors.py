"""Tensors and a JSON note in one safetensors file, replaced in one step; never pickle."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray

from knnlm.errors import DamagedError
from knnlm.files import explain_os_errors, write_bytes


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], note: dict[str, Any]) -> None:
    """Write tensors and a JSON note to `path`, atomically."""
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"note": json.dumps(note)}  # one field: several would be written in a changing order
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    # not save_file: it hides a full disk behind an error of its own, and a kill would leave its
    # temporary file behind
    write_bytes(path, safetensors.torch.save(plain, metadata))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and note of a file written by `save_tensors`."""
    with opened_tensors(path) as file:
        names: list[str] = file.keys()
        return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["note"])


def read_note(path: Path) -> dict[str, Any]:
    """The note of a file written by `save_tensors`; the tensors are not read."""
    with opened_tensors(path) as file:
        note: dict[str, Any] = json.loads(file.metadata()["note"])
        return note


@contextlib.contextmanager
def opened_tensors(path: Path) -> Iterator[Any]:
    """A safetensors file open for reading; whatever is wrong with it becomes a `DamagedError`."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except (
        safetensors.SafetensorError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        folder = os.path.relpath(path.parent)
        raise DamagedError(
            f"{path} is damaged: delete {folder} and run the same command again to start over"
        ) from error


def read_only_tensor(values: NDArray[Any]) -> torch.Tensor:
    """An array as a tensor that shares its memory, also where that may only be read.

    PyTorch knows no tensors that are only read, and warns: whoever gets this one must not write.
    """
    if values.flags.writeable:
        return torch.from_numpy(values)
    return torch.from_numpy(np.asarray(_Shared(values)))


class _Shared:
    """The memory of an array, described as if it could be written to."""

    def __init__(self, values: NDArray[Any]) -> None:
        address, _ = values.__array_interface__["data"]
        self.__array_interface__ = {**values.__array_interface__, "data": (address, False)}
        self.values = values  # holds the memory
