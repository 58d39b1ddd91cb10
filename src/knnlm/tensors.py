"""Tensors and a JSON note in one safetensors file, replaced in one step; never pickle.

safetensors notices a file that is cut, and no flipped bit. So the note begins with `xxh3`, the
XXH3-64 of the whole file, header included, in which its own digits count as zeros.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
import xxhash
from numpy.typing import NDArray

from knnlm.disk import explain_os_errors, new_file
from knnlm.errors import DamagedError

_CHECKSUM = "xxh3"
_ZEROS = "0" * 16
_BLOCK = 1 << 24
_LENGTH_BYTES = 8  # of the header's length, which comes first
_UNREADABLE = (
    safetensors.SafetensorError,
    OSError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], note: dict[str, Any]) -> None:
    """Write tensors and a JSON note to `path`, atomically."""
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    # not save_file: it hides a full disk behind an error of its own, and a kill would leave its
    # temporary file behind
    with new_file(path) as file:
        for part in _file_parts(tensors, note):
            file.write(part)


def _file_parts(tensors: dict[str, torch.Tensor], note: dict[str, Any]) -> tuple[bytes, memoryview]:
    """The header and then the tensors; equal ones give equal bytes."""
    # one field: several would be written in a changing order
    metadata = {"note": json.dumps({_CHECKSUM: _ZEROS, **note})}
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    data = memoryview(safetensors.torch.save(plain, metadata))
    header_end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    head = _with_digits(bytes(data[:header_end]), _ZEROS, xxhash.xxh3_64_hexdigest(data))
    return head, data[header_end:]


def read_tensors(
    path: Path, *, checksum_required: bool = True
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and note of a file written by `save_tensors`.

    Args:
        path: The file.
        checksum_required: Whether to refuse a file without a checksum, as earlier versions wrote
            them; not where a record beside the file has one.

    Raises:
        DamagedError: The file is missing, or not what was written.
    """
    note = _checked_note(path, checksum_required)
    try:
        with safetensors.safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
    except _UNREADABLE as error:
        raise _damaged(path) from error


def read_note(path: Path) -> dict[str, Any]:
    """The note of a file written by `save_tensors`. The whole file is compared with its checksum
    too, because a note is read to decide about the tensors.

    Raises:
        DamagedError: The file is missing, or not what was written.
    """
    return _checked_note(path, checksum_required=True)


def _checked_note(path: Path, checksum_required: bool) -> dict[str, Any]:
    """The note, once every byte of the file was compared with the checksum in it."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size > path.stat().st_size:
                raise ValueError("the header is longer than the file")
            file.seek(0)
            head = file.read(_LENGTH_BYTES + size)
            note = dict(json.loads(json.loads(head[_LENGTH_BYTES:])["__metadata__"]["note"]))
            checksum = note.pop(_CHECKSUM, None)
            if checksum is None:
                if checksum_required:
                    raise _damaged(path, " (it has no checksum)")
                return note
            digest = xxhash.xxh3_64(_with_digits(head, str(checksum), _ZEROS))
            while block := file.read(_BLOCK):
                digest.update(block)
    except _UNREADABLE as error:
        raise _damaged(path) from error
    if digest.hexdigest() != checksum:
        raise _damaged(path)
    return note


def _with_digits(head: bytes, before: str, after: str) -> bytes:
    """A header with other digits of the checksum, which are in the note: JSON inside JSON."""
    start, rest = (json.dumps(text)[1:-1].encode() for text in (f'{{"{_CHECKSUM}": "', '"'))
    if (at := head.find(start + before.encode() + rest)) < 0:
        raise ValueError("the checksum is not at the beginning of the note")
    at += len(start)
    return head[:at] + after.encode() + head[at + len(before) :]


def _damaged(path: Path, why: str = "") -> DamagedError:
    folder = os.path.relpath(path.parent)
    return DamagedError(
        f"{path} is damaged{why}: delete {folder} and run the same command again to start over"
    )


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
