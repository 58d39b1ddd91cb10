"""Texts as arguments name them, and what a store's model sees in one. Knows nothing of
neighbours."""

import shutil
from pathlib import Path
from typing import Any

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.errors import DamagedError, UsageError
from knnlm.files import fingerprint
from knnlm.models.load import LanguageModel
from knnlm.progress import log
from knnlm.resolve import CACHE, the_model
from knnlm.text import HubDataset, PythonDocs, Source, Split, open_text
from knnlm.text import Text as NamedText

Text = NamedText | None
_FEW = 1000


def source(
    text: Text = None, *, dataset: str | None = None, embedded: bool = False, split: Split = "train"
) -> Source:
    """A text: local paths, a Hugging Face data set (NAME or NAME:CONFIG), or the embedded one.
    Exactly one of them."""
    if sum([text is not None, dataset is not None, embedded]) != 1:
        raise UsageError("name one text: --text PATH…, --dataset NAME or --embedded")
    if embedded:
        return open_text(PythonDocs(), split)
    if dataset is not None:
        return open_text(HubDataset(dataset), split)
    assert text is not None
    return open_text(text, split)


def queries(
    store: Entries,
    text: Source,
    model: str | Path | LanguageModel | None = None,
    device: str | None = None,
) -> Entries:
    """States of an evaluation text under the store's model, with log p_LM; kept in the store's
    cache."""
    _refuse_own_text(store, text.describe())
    lm = the_model(store, model, device)
    name = fingerprint(
        {"text": text.describe(), "window": store.meta["window"], "stride": store.meta["stride"]}
    )
    folder = store.path / CACHE / name
    shape: dict[str, Any] = {
        "keys": store.keys,
        "att_module": store.meta["att_module"],
        "window": store.meta["window"],
        "stride": store.meta["stride"],
        "dtype": store.dtype,
    }
    try:
        found = build_entries(lm, text, folder, logprobs=True, **shape)
        found.verify()
    except DamagedError as error:
        log.warning(f"{error}; reading the text again")
        shutil.rmtree(folder)
        found = build_entries(lm, text, folder, logprobs=True, **shape)
    return found


def _refuse_own_text(store: Entries, text: dict[str, Any]) -> None:
    """A text that is in the store retrieves itself, token by token, and looks as if everything were
    solved."""
    mine = store.meta["text"]
    shared = {f["xxh3"] for f in mine.get("files", [])} & {f["xxh3"] for f in text.get("files", [])}
    if text == mine or shared:
        names = [f["name"] for f in text.get("files", []) if f["xxh3"] in shared]
        what = f"{', '.join(names)} is part of" if names else "that is"
        raise UsageError(
            f"{what} the text the store was built from, where every token retrieves itself: give "
            "another"
        )


def warn_of_few(
    tokens: int,
) -> None:
    """What is fitted on a handful of tokens fits nothing else."""
    if tokens < _FEW:
        log.info(
            f"note: fitted on only {tokens:,} tokens, which says little of other text: give a "
            "longer --text"
        )


def warn_of_same_text(
    same: bool,
) -> None:
    """A text is easy for what was tuned on it."""
    if same:
        log.info("note: λ and τ were tuned on this very text, which flatters the result")
