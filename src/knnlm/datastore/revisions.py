"""A text of the Hugging Face hub stays at the commit that its datastore was begun with.

The commit is in what the manifest says of the text, and before there is a manifest in the
checkpoint.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knnlm.datastore.entries import ENTRIES_KIND
from knnlm.datastore.manifest import check_checkpoint
from knnlm.datastore.table import CHECKPOINT, read_manifest
from knnlm.errors import KnnlmError
from knnlm.files import read_json
from knnlm.text import HubSplit, Source


def pinned(text: Source, folder: Path) -> Source:
    """A text at the commit that the table in a folder was begun with, or at the present one.

    Args:
        text: The text; one that is not of the hub is returned as it is.
        folder: Where it is written to.
    """
    return text.pinned(_begun_with(folder)) if isinstance(text, HubSplit) else text


def note_for_checkpoint(text: Source) -> dict[str, Any]:
    """What a checkpoint must say for that."""
    return {"text": text.describe()} if isinstance(text, HubSplit) else {}


def _begun_with(folder: Path) -> Mapping[str, Any] | None:
    """The description of the text that is there already."""
    described: Any = None
    # what is wrong with the folder is told when it is written to
    with contextlib.suppress(KnnlmError):
        described = read_manifest(folder, ENTRIES_KIND)["meta"].get("text")
    file = folder / CHECKPOINT
    if described is None and file.is_file():
        with contextlib.suppress(KnnlmError):
            described = check_checkpoint(read_json(file), file).get("note", {}).get("text")
    return described if isinstance(described, Mapping) else None
