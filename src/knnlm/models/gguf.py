"""GGUF files, converted once and kept.

    CACHE/gguf/<checksum of the file>-<precision>-<version of transformers>/
        config.json, model.safetensors, tokenizer.json, …    a model folder like any other
        converted.json                                       written last: checksums of these files

transformers turns a GGUF file into a model and a tokenizer at every start, which takes half a
minute for a small one. CACHE is the folder that KNNLM_CACHE names, or knnlm in the user's cache.
"""

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json, short_path, write_json
from knnlm.locks import write_lock
from knnlm.models.location import ModelLocation
from knnlm.models.saving import save_model
from knnlm.progress import log
from knnlm.stored_fields import Checksum, PlainName, check_fields

_RECORD = "converted.json"
_PATIENCE = 600.0


class _Converted(TypedDict):
    """The files of a conversion and their checksums."""

    files: dict[PlainName, Checksum]


def converted(location: ModelLocation, precision: str) -> ModelLocation:
    """The folder of a model that was converted from a GGUF file, converted now if it is not there.

    Args:
        location: The GGUF file, here or on the hub.
        precision: The type of the weights, or "auto".

    Raises:
        KnnlmError: The folder for converted files cannot be written.
    """
    import transformers

    file = _local_file(location)
    name = f"{checksum_file(file)}-{precision}-{transformers.__version__}"
    folder = cache_folder() / "gguf" / name
    if not _is_whole(folder):
        _make(folder)
        with write_lock(folder, patience=_PATIENCE):
            if not _is_whole(folder):  # another process may have converted it meanwhile
                log.info(
                    f"converting {location.gguf_file} once; it is kept in {short_path(folder)}"
                )
                _convert(file, folder, precision)
    return ModelLocation(str(folder), None)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KnnlmError(
            f"{cache_folder()} cannot hold the converted GGUF file ({error.strerror}): set "
            "KNNLM_CACHE to a folder that can be written"
        ) from error


def cache_folder() -> Path:
    """Where knnlm keeps what it can make again for any datastore."""
    if given := os.environ.get("KNNLM_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "knnlm"


def _local_file(location: ModelLocation) -> Path:
    assert location.gguf_file is not None
    file = Path(location.name) / location.gguf_file
    if file.is_file():
        return file
    from transformers.utils import cached_file

    options = location.options()
    only_local = options.get("local_files_only", False)
    return Path(
        str(cached_file(location.name, location.gguf_file, local_files_only=only_local))
    ).resolve()


def _is_whole(folder: Path) -> bool:
    """Whether a conversion is finished and its files are what was written."""
    if not (folder / _RECORD).is_file():
        return False
    try:
        record = check_fields(_Converted, read_json(folder / _RECORD), folder / _RECORD, "")
        files = record["files"].items()
        whole = all(checksum_file(folder / name) == checksum for name, checksum in files)
    except (DamagedError, OSError):
        whole = False
    if not whole:
        log.warning(f"{short_path(folder)} is damaged; converting the file again")
        (folder / _RECORD).unlink(missing_ok=True)
    return whole


def _convert(file: Path, folder: Path, precision: str) -> None:
    import torch
    import transformers

    where: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
    dtype = "auto" if precision == "auto" else getattr(torch, precision)
    (folder / _RECORD).unlink(missing_ok=True)
    with _without_bars():
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **where)
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            str(file.parent), dtype=dtype, **where
        )
    # the weights are ordinary tensors now, but transformers refuses to save what was quantized once
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    saved = save_model(folder, model, tokenizer)
    write_json(folder / _RECORD, {"files": {name: file["xxh3"] for name, file in saved.items()}})


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Turn off the bar that transformers shows for GGUF files, for which it has no switch."""
    from transformers import modeling_gguf_pytorch_utils as module

    shown: Any = module
    bar = shown.tqdm
    shown.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        shown.tqdm = bar
