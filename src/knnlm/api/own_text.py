"""The text that a datastore was built from, and its other splits.

Without a name, an evaluation text is another split of that text. If that is a folder that was
divided, and has moved, its new path names it: the folder is recognized by its files and divided as
before. Nothing here imports a model library, so that the command line can advise at once.
"""

import dataclasses
from pathlib import Path
from typing import Any

from knnlm.datastore import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.progress import no_messages
from knnlm.text import Files, FolderSplit, Source, Split, Text, open_text, text_from_json


def own_text(entries: Entries) -> Text:
    """The text that a datastore was built from, if it has splits.

    Raises:
        UsageError: It has none, or it is no longer where it was.
    """
    name = _own_name(entries)
    if not name:
        raise UsageError(
            f"{entries.path} was built from a text without splits: give another text with `text`, "
            "or build it from a folder with `split`"
        )
    paths = name.get("paths", [name["path"]] if "path" in name else [])
    for path in paths:
        if not Path(path).exists():
            raise UsageError(
                f"the text of {entries.path} is no longer at {path}: give its new path with `text`"
            )
    return text_from_json(name)


def has_own_text(entries: Entries, split: Split, text: Text | None = None) -> bool:
    """Whether the text that a datastore was built from is there and has documents in a split.

    Args:
        entries: The datastore.
        split: Which part; only that of a folder is looked into.
        text: Where the text may be now, instead of where it was.
    """
    try:
        with no_messages():
            source = open_text(own_text(entries) if text is None else text, split)
            part = source if text is None else part_of_own(entries, source, split)
            return any(True for _ in part) if isinstance(part, FolderSplit) else part is not None
    except KnnlmError:
        return False


def part_of_own(entries: Entries, source: Source, split: Split) -> FolderSplit | None:
    """A part of the folder that a datastore was built from, divided as it was then; None if the
    files are not those of a divided folder: more than half of them, by name and checksum."""
    name = _own_name(entries)
    if name.get("kind") != "folder" or not isinstance(source, Files):
        return None
    built, here = (
        {(file["name"], file["xxh3"]) for file in described.get("files", [])}
        for described in (entries.meta["text"], source.describe())
    )
    if 2 * len(built & here) <= len(built):
        return None
    train, valid, test = name["split"]
    files = dataclasses.replace(source, meta=name["meta"])
    return FolderSplit(files, (train, valid, test), split)


def _own_name(entries: Entries) -> dict[str, Any]:
    """How a text with splits was named when the datastore was built, and at which revision it was
    read; empty for others."""
    name = dict(entries.table.manifest["summary"].get("text") or {})
    if name.get("kind") == "dataset" and (revision := entries.meta["text"].get("revision")):
        name["revision"] = revision
    return name
