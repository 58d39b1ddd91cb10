"""Texts as arguments name them, and what a store's model sees in one. Knows nothing of neighbours."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from knnlm.errors import DamagedError, UsageError
from knnlm.files import fingerprint
from knnlm.lm.documents import Source, Split, hub_dataset, local_text
from knnlm.lm.embedded import Embedded
from knnlm.lm.load import LanguageModel
from knnlm.progress import say
from knnlm.resolve import CACHE, the_model
from knnlm.states.build import build_states
from knnlm.states.store import Store

Text = str | Path | Sequence[str | Path] | Source | None
_FEW = 1000


def source(text: Text = None, *, dataset: str | None = None, embedded: bool = False, split: Split = "train") -> Source:
    """A text: local paths, a Hugging Face data set (NAME or NAME:CONFIG), or the embedded one. Exactly one of them."""
    if sum([text is not None, dataset is not None, embedded]) != 1:
        raise UsageError("name one text: --text PATH…, --dataset NAME or --embedded")
    if embedded:
        return Embedded(split)
    if dataset is not None:
        return hub_dataset(dataset, split)
    if isinstance(text, str | Path):
        return local_text([text], split)
    if isinstance(text, Sequence):
        return local_text(text, split)
    assert text is not None
    return text


def queries(
    store: Store,
    text: Source,
    model: str | Path | LanguageModel | None = None,
    progress: bool = False,
    device: str | None = None,
) -> Store:
    """States of an evaluation text under the store's model, with log p_LM; kept in the store's cache."""
    _refuse_own_text(store, text.describe())
    lm = the_model(store, model, device)
    name = fingerprint({"text": text.describe(), "window": store.meta["window"], "stride": store.meta["stride"]})
    folder = store.path / CACHE / name
    shape: dict[str, Any] = {
        "keys": store.keys,
        "att_module": store.meta["att_module"],
        "window": store.meta["window"],
        "stride": store.meta["stride"],
        "dtype": store.dtype,
    }
    try:
        found = build_states(lm, text, folder, logprobs=True, progress=progress, **shape)
        found.verify()
    except DamagedError as error:
        say(f"{error}; reading the text again")
        shutil.rmtree(folder)
        found = build_states(lm, text, folder, logprobs=True, progress=progress, **shape)
    return found


def _refuse_own_text(store: Store, text: dict[str, Any]) -> None:
    """A text that is in the store retrieves itself, token by token, and looks as if everything were solved."""
    mine = store.meta["text"]
    shared = {f["xxh3"] for f in mine.get("files", [])} & {f["xxh3"] for f in text.get("files", [])}
    if text == mine or shared:
        names = [f["name"] for f in text.get("files", []) if f["xxh3"] in shared]
        what = f"{', '.join(names)} is part of" if names else "that is"
        raise UsageError(f"{what} the text the store was built from, where every token retrieves itself: give another")


def warn_of_few(tokens: int, progress: bool) -> None:
    """What is fitted on a handful of tokens fits nothing else."""
    if tokens < _FEW:
        say(f"note: fitted on only {tokens:,} tokens, which says little of other text: give a longer --text", progress)


def warn_of_same_text(same: bool, progress: bool) -> None:
    """A text is easy for what was tuned on it."""
    if same:
        say("note: λ and τ were tuned on this very text, which flatters the result", progress)
