"""Evaluation texts of a datastore: what its model reads in one, kept in the datastore's cache.

Without a name it is another split of the text that the datastore was built from. If that is a
folder that was divided, and has moved, its new path names it: the folder is recognized by its files
and divided as before.
"""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from knnlm.api.overlap import without_overlap
from knnlm.datastore import MANIFEST, ChangedText, Entries, build_entries, open_entries
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.evaluation import choose_settings, load_settings
from knnlm.files import fingerprint, read_json
from knnlm.hidden_states import StateReader
from knnlm.models import LanguageModel
from knnlm.progress import log, no_messages
from knnlm.text import (
    EmptySplit,
    Files,
    FolderSplit,
    Source,
    Split,
    Text,
    encode_prompt,
    open_text,
    text_from_json,
)

CACHE = "cache/states"


def read_text(
    entries: Entries,
    text: Text | None,
    split: Split,
    lm: LanguageModel,
    *,
    allow_overlap: bool,
    softmax_temperature: float | None = None,
) -> Entries:
    """What a datastore's model reads in an evaluation text that is not in the datastore.

    Args:
        entries: The datastore.
        text: The text; None is the datastore's own, if that has splits. The folder that the
            datastore was built from is divided as before, wherever it is now, unless it may
            overlap.
        split: Which part of it.
        lm: The model.
        allow_overlap: Whether it may be in the datastore, where it retrieves itself.
        softmax_temperature: T of the calibrated LM. While the text is read, log p at one more T
            costs little; later it takes another pass over the logits.
    """
    source = open_text(own_text(entries) if text is None else text, split)
    own = text is None
    if not allow_overlap and (part := _part_of_own(entries, source, split)) is not None:
        log.info(
            f"this is the folder that the datastore was built from: its '{split}' part is read, "
            "divided as before"
        )
        source, own = part, True
    try:
        if not allow_overlap:
            source = without_overlap(entries, source, lm, own_split=own)
        return _read_queries(entries, source, lm, softmax_temperature)
    except EmptySplit as error:
        advice = "build again with a larger share for it, or give another text with `text`"
        raise EmptySplit(error.split, error.percents, advice) from error


def _read_queries(
    entries: Entries, text: Source, lm: LanguageModel, softmax_temperature: float | None
) -> Entries:
    """Hidden states, targets and log p_LM of an evaluation text, read as the datastore was."""
    meta = entries.meta
    windows = {"window": meta["window"], "stride": meta["stride"]}
    described: dict[str, Any] = {"text": text.describe(), **windows}
    keys = entries.keys
    if "ffn" not in keys:  # the control needs it
        keys = (*keys, "ffn")
        described["keys"] = keys
    folder = entries.path / CACHE / fingerprint(described)
    options: dict[str, Any] = {
        "keys": keys,
        "att_module": meta["att_module"],
        "dtype": entries.dtype,
        "logprobs": True,
        **windows,
    }
    try:
        # a text that was read at another T is not read again for that
        begun = (
            _softmax_temperature(folder) if (folder / MANIFEST).is_file() else softmax_temperature
        )
        queries = build_entries(lm, text, folder, softmax_temperature=begun, **options)
        queries.verify()
    except ChangedText as error:
        shutil.rmtree(folder)  # what was read of it is of two texts
        raise KnnlmError(f"{error.change}: run the same again once nobody writes to it") from error
    except DamagedError as error:
        log.warning(f"{error}; reading the text again")
        shutil.rmtree(folder)
        queries = build_entries(
            lm, text, folder, softmax_temperature=softmax_temperature, **options
        )
    return queries


def _softmax_temperature(folder: Path) -> float | None:
    """The T at which log p_LM is stored too, of a text that was read, or begun to be."""
    temperature = read_json(folder / MANIFEST)["meta"].get("softmax_temperature")
    return None if temperature is None else float(temperature)


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
            part = source if text is None else _part_of_own(entries, source, split)
            return any(True for _ in part) if isinstance(part, FolderSplit) else part is not None
    except KnnlmError:
        return False


def _part_of_own(entries: Entries, source: Source, split: Split) -> FolderSplit | None:
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
    """How a text with splits was named when the datastore was built; empty for others."""
    return dict(entries.table.manifest["summary"].get("text") or {})


def read_states(entries: Entries, lm: LanguageModel, text: str, key: str) -> NDArray[Any]:
    """The hidden states of one key at every token of a short text, rounded as the datastore's.

    Raises:
        UsageError: If the text is longer than the model can read at once.
    """
    tokens = encode_prompt(lm.tokenizer, text)
    if lm.positions is not None and len(tokens) > lm.positions:
        raise UsageError(
            f"the text has {len(tokens):,} tokens but the model reads at most {lm.positions:,}: "
            "shorten it"
        )
    with StateReader(lm.model, [key], entries.meta["att_module"]) as reader, torch.inference_mode():
        states = reader.read(torch.tensor([tokens], device=reader.device)).of(key)[0]
    rounded: NDArray[Any] = states.to(getattr(torch, entries.dtype)).cpu().numpy()
    return rounded


def last_validation_text(entries: Entries) -> Entries | None:
    """What the datastore's model read in the text that it was tuned on last; None if it was not
    tuned, or that text is no longer in the cache."""
    tuned = choose_settings(entries) or next(iter(load_settings(entries)), None)
    if tuned is not None:
        for folder in sorted((entries.path / CACHE).glob("*")):
            if (folder / MANIFEST).is_file():
                try:
                    queries = open_entries(folder)
                except KnnlmError:  # not finished, or damaged: read again when it is asked for
                    continue
                same = fingerprint(queries.meta["text"]) == tuned.text
                if same and "ffn" in queries.keys:  # an earlier knnlm did not read ffn always
                    queries.verify()
                    return queries
    return None
