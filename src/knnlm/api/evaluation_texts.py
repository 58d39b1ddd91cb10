"""Evaluation texts of a datastore: what its model reads in one, kept in the datastore's cache."""

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from knnlm.api.overlap import text_overlap, without_overlap
from knnlm.api.own_text import own_text, part_of_own
from knnlm.datastore import (
    ENTRIES_KIND,
    MANIFEST,
    ChangedText,
    Entries,
    build_entries,
    open_entries,
    read_manifest,
)
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.evaluation import choose_settings, load_settings
from knnlm.files import fingerprint
from knnlm.hidden_states import StateReader
from knnlm.models import LanguageModel
from knnlm.progress import log
from knnlm.text import (
    EmptySplit,
    Source,
    Split,
    Text,
    encode_prompt,
    open_text,
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
    if not allow_overlap and (part := part_of_own(entries, source, split)) is not None:
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


def allowed_overlap(entries: Entries, text: Text | None, split: Split, lm: LanguageModel) -> float:
    """Which share of an evaluation text is in the datastore, where that is allowed.

    Args:
        entries: The datastore.
        text: The text; None is the datastore's own.
        split: Which part of it.
        lm: The datastore's model, for its tokenizer.
    """
    source = open_text(own_text(entries) if text is None else text, split)
    return text_overlap(entries, source, lm).share


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
    refuse_links(folder, below=entries.path)
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
        remove_folder(folder, below=entries.path)  # what was read of it is of two texts
        raise KnnlmError(f"{error.change}: run the same again once nobody writes to it") from error
    except DamagedError as error:
        log.warning(f"{error}; reading the text again")
        remove_folder(folder, below=entries.path)
        queries = build_entries(
            lm, text, folder, softmax_temperature=softmax_temperature, **options
        )
    return queries


def _softmax_temperature(folder: Path) -> float | None:
    """The T at which log p_LM is stored too, of a text that was read, or begun to be."""
    temperature = read_manifest(folder, ENTRIES_KIND)["meta"].get("softmax_temperature")
    return float(temperature) if type(temperature) in (int, float) else None


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
