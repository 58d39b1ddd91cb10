"""Saving models, and comparing a model that `train` made with its record.

FOLDER/.unfinished/     what is being saved, in a folder of its own until it is whole
FOLDER/training.json    written by `train` when all is on disk: `files` names every file of the
                        model, and of FOLDER/checkpoints/N, with its size and checksum
"""

import json
import os
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from knnlm.disk import explain_os_errors, flush_file, remove_folder, sync_folder
from knnlm.errors import DamagedError
from knnlm.files import CHECKSUM, changed_file, describe_files, read_json
from knnlm.stored_fields import FileList, check_fields

TRAINING_RECORD, CHECKPOINTS = "training.json", "checkpoints"
_DRAFT = ".unfinished"
_CONFIG = "config.json"


class _Record(TypedDict):
    """What is read here of the record of a training."""

    files: NotRequired[FileList]


def save_model(folder: Path, *parts: Any) -> dict[str, dict[str, Any]]:
    """Save a model, its tokenizer, or both, as transformers writes them.

    Their files are flushed to disk before they take their names, `config.json` last: without it the
    folder is not opened as a model. Something that was left by a kill is deleted.

    Args:
        folder: Where to; its write lock, or that of a folder above it, is held.
        parts: What has `save_pretrained`.

    Returns:
        The size and the checksum of each file, by name.

    Raises:
        KnnlmError: The disk is full, or does not permit writing.
    """
    draft = folder / _DRAFT
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        remove_folder(draft, below=folder)
        draft.mkdir()
        try:
            for part in parts:
                part.save_pretrained(draft)
            saved = _flushed(draft)
            names = sorted(saved, key=lambda name: (name == _CONFIG, name))
            for name in names:
                (folder / name).parent.mkdir(exist_ok=True)
                os.replace(draft / name, folder / name)
        finally:
            remove_folder(draft, below=folder, ignore_errors=True)
        for changed in {(folder / name).parent for name in names} | {folder, folder.parent}:
            sync_folder(changed)
    return saved


def _flushed(draft: Path) -> dict[str, dict[str, Any]]:
    """Flush every file to disk, with the mode that the user's new files have."""
    files = [file for file in draft.rglob("*") if file.is_file()]
    mode = draft.stat().st_mode & 0o666  # safetensors lets nobody else read its files
    for file in files:
        file.chmod(mode)
        flush_file(file)
    return describe_files(draft, sorted(file.relative_to(draft).as_posix() for file in files))


def compare_with_record(folder: Path) -> None:
    """Compare a model's files with the record of its training, if that names them.

    Models from elsewhere have no such record, and that of an earlier version names no files.

    Args:
        folder: The model; it may be one of the checkpoints that were kept on the way.

    Raises:
        DamagedError: A file is missing, or not what `train` wrote.
    """
    folder = folder.resolve()
    out = folder.parent.parent if folder.parent.name == CHECKPOINTS else folder
    record = out / TRAINING_RECORD
    if not record.is_file() or not _is_of_train(record):
        return
    remedy = "restore it from a copy, or train the model again"
    files = check_fields(_Record, read_json(record), record, remedy).get("files", {})
    own = {name: file for name, file in files.items() if (out / name).parent == folder}
    if changed := changed_file(out, own):
        raise DamagedError(
            f"{changed} is not the file that {record.name} names: restore it from a copy, or train "
            f"the model again; if it was changed on purpose, delete {record}"
        )


def _is_of_train(record: Path) -> bool:
    """Whether a record is ours, damaged or not; some other program may give a file that name."""
    try:
        fields = json.loads(record.read_bytes())
    except (ValueError, RecursionError):
        return True
    return isinstance(fields, dict) and bool({CHECKSUM, "recipe"} & fields.keys())
