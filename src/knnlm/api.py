"""The operations of knnlm with plain arguments: what `import knnlm` offers and what every verb calls.

Each function resolves names (paths, texts, models, indexes) and hands over to the room that does the work.
"""

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.evaluation import Evaluation, Tuned
from knnlm.evaluation import evaluate as evaluate_queries
from knnlm.evaluation import tune as tune_queries
from knnlm.files import fingerprint
from knnlm.lm.documents import Source, Split, hub_dataset, local_text
from knnlm.lm.embedded import Embedded
from knnlm.lm.load import LanguageModel, load_model
from knnlm.lm.portions import HeldOut
from knnlm.lm.presets import Preset
from knnlm.lm.presets import preset as preset_named
from knnlm.lm.train import Trained
from knnlm.lm.train import train as train_model
from knnlm.progress import say
from knnlm.search.cache import EXACT, Retrieval, Score, check_mask
from knnlm.search.exact import check_k
from knnlm.search.factory import NPROBE
from knnlm.search.index import RECALL_FLOOR, Index, build_index, list_indexes
from knnlm.settings import choose_tuned, not_tuned, save_tuned
from knnlm.similarity import checked_metric
from knnlm.states.build import build_states
from knnlm.states.store import Store, open_store
from knnlm.taps import KEYS

Text = str | Path | Sequence[str | Path] | Source | None


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


def train(
    out: str | Path,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    valid: Text = None,
    preset: str | Preset = "demo",
    seed: int = 0,
    progress: bool = False,
) -> Trained:
    """Train a base LM from scratch into `out`. Without a validation text, WikiText folders, data sets and the embedded
    text use their own; other texts hold out the last 5% of each document.
    """
    chosen = preset_named(preset) if isinstance(preset, str) else preset
    training = source(text, dataset=dataset, embedded=embedded, split="train")
    if valid is not None:
        validation = source(valid, split="valid")
    else:
        validation = source(text, dataset=dataset, embedded=embedded, split="valid")
        if validation == training:
            training, validation = HeldOut(training, "train"), HeldOut(training, "valid")
    return train_model(training, validation, chosen, Path(out), seed=seed, progress=progress)


def build(
    model: str | Path | LanguageModel,
    out: str | Path,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    keys: Sequence[str] = KEYS,
    window: int | None = None,
    stride: int | None = None,
    logprobs: bool = False,
    dtype: str = "float16",
    progress: bool = False,
) -> Store:
    """Store what `model` sees in a text: the datastore."""
    training = source(text, dataset=dataset, embedded=embedded, split="train")
    lm = model if isinstance(model, LanguageModel) else load_model(model)
    return build_states(
        lm, training, Path(out), keys=keys, window=window, stride=stride, logprobs=logprobs, dtype=dtype,
        progress=progress,
    )  # fmt: skip


def index(
    store: str | Path | Store,
    *,
    key: str | None = None,
    metric: str = "l2",
    factory: str | None = None,
    nprobe: int = NPROBE,
    recall_floor: float = RECALL_FLOOR,
    progress: bool = False,
) -> Index:
    """Build a FAISS index of one key of a store, tested against exact search."""
    opened = _store(store)
    return build_index(
        opened, key or opened.keys[0], checked_metric(metric), factory=factory, nprobe=nprobe,
        recall_floor=recall_floor, progress=progress,
    )  # fmt: skip


def tune(
    store: str | Path | Store,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    model: str | Path | LanguageModel | None = None,
    key: str | None = None,
    metric: str = "l2",
    mask: str | None = None,
    score: Score = "search",
    k: int | Sequence[int] = 1024,
    temperatures: Sequence[float] | None = None,
    progress: bool = False,
) -> Tuned:
    """Fit λ and τ (and k, of several) on a validation text and keep them with the store.

    `mask` is "exact" or an index's name; by default the store's index of that key and metric, or exact search.
    """
    opened = _store(store)
    held_out = source(text, dataset=dataset, embedded=embedded, split="valid")
    ks = [k] if isinstance(k, int) else list(k)
    if not ks:
        raise UsageError("no k given: give at least one")
    key = key or opened.keys[0]
    opened.key(key)
    for value in ks:
        check_k(value)
    chosen = mask or default_mask(opened, key, checked_metric(metric), progress)
    what = Retrieval(key=key, metric=checked_metric(metric), mask=chosen, score=score, k=max(ks))
    _check(opened, what)
    found = tune_queries(
        opened, queries(opened, held_out, model, progress), what, temperatures=temperatures, ks=ks, progress=progress
    )._replace(text=fingerprint(held_out.describe()))
    save_tuned(opened, found)
    return found


def evaluate(
    store: str | Path | Store,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    split: Split = "test",
    model: str | Path | LanguageModel | None = None,
    key: str | None = None,
    metric: str | None = None,
    mask: str | None = None,
    score: Score | None = None,
    k: int | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    progress: bool = False,
) -> tuple[Tuned, Evaluation]:
    """Perplexities of a text under the store's tuned settings, or given ones: the settings used, and the numbers."""
    opened = _store(store)
    test = source(text, dataset=dataset, embedded=embedded, split=split)
    wanted = {"key": key, "metric": metric, "mask": mask, "score": "real" if mask == EXACT else score}
    tuned = choose_tuned(opened, **wanted)
    if tuned is None:
        if lam is None or temperature is None:
            raise not_tuned(opened, **wanted)
        key, metric = key or opened.keys[0], metric or "l2"
        chosen = mask or default_mask(opened, key, metric, progress)
        what = Retrieval(key=key, metric=checked_metric(metric), mask=chosen, score=score or "search")
        tuned = Tuned(what, lam, temperature, math.nan, math.nan, math.nan, 0)
    if tuned.text == fingerprint(test.describe()):
        say("note: λ and τ were tuned on this very text, which flatters the result", progress)
    tuned = _overridden(tuned, k, lam, temperature)
    _check(opened, tuned.retrieval)
    return tuned, evaluate_queries(opened, queries(opened, test, model, progress), tuned, progress=progress)


def _overridden(tuned: Tuned, k: int | None, lam: float | None, temperature: float | None) -> Tuned:
    """The tuned settings with what was given in their place; another τ keeps the unit it is measured in."""
    if k is not None:
        tuned = tuned._replace(retrieval=replace(tuned.retrieval, k=k))
    if lam is not None:
        tuned = tuned._replace(lam=lam)
    if temperature is not None:
        unit = tuned.temperature / tuned.temperature_units
        tuned = tuned._replace(temperature=temperature, temperature_units=temperature / unit)
    return tuned


def queries(
    store: Store,
    text: Source,
    model: str | Path | LanguageModel | None = None,
    progress: bool = False,
) -> Store:
    """States of an evaluation text under the store's model, with log p_LM; kept in the store's cache."""
    _refuse_own_text(store, text.describe())
    lm = model if isinstance(model, LanguageModel) else _model_of(store, model)
    store.require(lm)
    name = fingerprint({"text": text.describe(), "window": store.meta["window"], "stride": store.meta["stride"]})
    folder = store.path / "cache" / "states" / name
    shape: dict[str, Any] = {
        "keys": store.keys,
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


def _model_of(store: Store, given: str | Path | None) -> LanguageModel:
    """The model named, or the one that the store remembers."""
    if given is not None:
        return load_model(given)
    try:
        return load_model(store.model_source)
    except KnnlmError as error:
        raise KnnlmError(f"the model of {store.path} is not where it was: say where with --model ({error})") from error


def default_mask(store: Store, key: str, metric: str, progress: bool = False) -> str:
    """The store's only index for this key and metric; exact search if there is none."""
    fitting = [name for name in list_indexes(store) if name.startswith(f"{key}-{metric}-")]
    if len(fitting) > 1:
        raise UsageError(
            f"{store.path} has several indexes of {key} and {metric}: name one with --index: {', '.join(fitting)}"
        )
    if not fitting:
        say(f"{store.path} has no index of {key} and {metric}: searching exactly", progress)
    return fitting[0] if fitting else EXACT


def _store(store: str | Path | Store) -> Store:
    return store if isinstance(store, Store) else open_store(store)


def _check(store: Store, what: Retrieval) -> None:
    """Find a wrong name before an hour's work, not after."""
    store.key(what.key)
    check_mask(store, what)
