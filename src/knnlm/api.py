"""The operations of knnlm with plain arguments: what `import knnlm` offers and what every verb calls.

Each function resolves names (paths, texts, models, indexes) and hands over to the room that does the work.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knnlm.distillation import Distilled, load_distilled
from knnlm.distillation import combine as combine_states
from knnlm.distillation import distill as distill_states
from knnlm.errors import DamagedError, UsageError
from knnlm.evaluation import Evaluation, Tuned
from knnlm.evaluation import evaluate as evaluate_queries
from knnlm.evaluation import evaluate_component as evaluate_distilled
from knnlm.evaluation import tune as tune_queries
from knnlm.files import fingerprint
from knnlm.learning.learn import HOW
from knnlm.learning.usual import KIND
from knnlm.lm.documents import Source, Split, hub_dataset, local_text
from knnlm.lm.embedded import Embedded
from knnlm.lm.load import LanguageModel, load_model
from knnlm.lm.portions import HeldOut
from knnlm.lm.presets import Preset
from knnlm.lm.presets import preset as preset_named
from knnlm.lm.tokenizer import with_bos
from knnlm.lm.train import Trained
from knnlm.lm.train import train as train_model
from knnlm.progress import say
from knnlm.resolve import (
    CACHE,
    check_retrieval,
    default_mask,
    refuse_retrieval,
    the_model,
    the_settings,
    the_store,
    the_substitute,
    the_validation,
)
from knnlm.search.exact import check_k
from knnlm.search.factory import NPROBE
from knnlm.search.index import RECALL_FLOOR, Index, build_index
from knnlm.search.retrieval import Retrieval, Score
from knnlm.settings import choose_tuned, save_tuned
from knnlm.similarity import checked_metric
from knnlm.states.build import build_states
from knnlm.states.store import Store

if TYPE_CHECKING:
    from knnlm.hf.model import KNNLMForCausalLM

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
    keys: Sequence[str] | None = None,
    att_module: str | None = None,
    window: int | None = None,
    stride: int | None = None,
    logprobs: bool = False,
    dtype: str = "float16",
    device: str | None = None,
    precision: str = "float32",
    adapter: str | Path | None = None,
    progress: bool = False,
) -> Store:
    """Store what `model` sees in a text: the datastore.

    `device`, `precision` and `adapter` say how to open the model (see load_model).
    """
    training = source(text, dataset=dataset, embedded=embedded, split="train")
    if not isinstance(model, LanguageModel):
        model = load_model(model, device=device, precision=precision, adapter=adapter)
    return build_states(
        model, training, Path(out), keys=keys, att_module=att_module, window=window, stride=stride, logprobs=logprobs,
        dtype=dtype, progress=progress,
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
    opened = the_store(store)
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
    device: str | None = None,
    progress: bool = False,
) -> Tuned:
    """Fit λ and τ (and k, of several) on a validation text and keep them with the store.

    `mask` is "exact" or an index's name; by default the store's index of that key and metric, or exact search.
    """
    opened = the_store(store)
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
    check_retrieval(opened, what)
    found = tune_queries(
        opened,
        queries(opened, held_out, model, progress, device),
        what,
        temperatures=temperatures,
        ks=ks,
        progress=progress,
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
    device: str | None = None,
    progress: bool = False,
) -> tuple[Tuned, Evaluation]:
    """Perplexities of a text under the store's tuned settings, or given ones: the settings used, and the numbers."""
    opened = the_store(store)
    test = source(text, dataset=dataset, embedded=embedded, split=split)
    tuned = the_settings(
        opened, key=key, metric=metric, mask=mask, score=score, k=k, lam=lam, temperature=temperature,
        progress=progress,
    )  # fmt: skip
    if tuned.text == fingerprint(test.describe()):
        say("note: λ and τ were tuned on this very text, which flatters the result", progress)
    found = evaluate_queries(opened, queries(opened, test, model, progress, device), tuned, progress=progress)
    return tuned, found


def distill(
    store: str | Path | Store,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    model: str | Path | LanguageModel | None = None,
    name: str | None = None,
    kind: str = KIND,
    key: str | None = None,
    size: int | None = None,
    metric: str | None = None,
    taught: float = 0.0,
    lr: float | None = None,
    epochs: int | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: bool = False,
) -> Distilled:
    """Make a component of the store's rows that `evaluate` and `load` can use in the place of the search.

    Mixed, and stopped if it is learned, by a validation text: the one given, or else the one that the store was tuned
    on. Clusters are learned further only where `epochs` is given. `name` is the kind, and the key if one is given;
    `size` counts clusters, embeddings a word, softmaxes, or the inner width of a network, which reads att and ffn;
    `taught` is the share of the loss that neighbours in other documents teach.
    """
    opened = the_store(store)
    what = the_substitute(opened, kind, key, size, metric)
    name = name if name is not None else kind if key is None else f"{kind}-{key}"
    teacher = choose_tuned(opened, key=key) if taught else None
    if taught and teacher is None and what.kind != "clusters":  # to which nothing can be taught
        raise UsageError(f"{opened.path} is not tuned, and neighbours teach at the tuned τ: run 'knnlm tune' first")
    if what.kind == "clusters" and lr is not None and epochs is None:
        raise UsageError("clusters are learned further only if --epochs is given: give it too, or leave out --lr")
    how = None
    if what.kind != "clusters" or epochs is not None:
        how = replace(HOW, lr=HOW.lr if lr is None else lr, epochs=HOW.epochs if epochs is None else epochs)
    lm = the_model(opened, model, device)
    if text is None and dataset is None and not embedded:
        valid = the_validation(opened)
    else:
        valid = queries(opened, source(text, dataset=dataset, embedded=embedded, split="valid"), lm, progress, device)
    return distill_states(
        opened, valid, lm, what, name=name, how=how, taught=taught, teacher=teacher, seed=seed, progress=progress
    )


def combine(
    store: str | Path | Store,
    components: Sequence[str],
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    model: str | Path | LanguageModel | None = None,
    name: str = "together",
    device: str | None = None,
    progress: bool = False,
) -> Distilled:
    """Mix components of a store into one, shares and λ fitted together on the validation text."""
    opened = the_store(store)
    if text is None and dataset is None and not embedded:
        valid = the_validation(opened)
    else:
        valid = queries(
            opened, source(text, dataset=dataset, embedded=embedded, split="valid"), model, progress, device
        )
    return combine_states(opened, valid, components, name=name, progress=progress)


def evaluate_component(
    store: str | Path | Store,
    component: str,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    split: Split = "test",
    model: str | Path | LanguageModel | None = None,
    lam: float | None = None,
    device: str | None = None,
    progress: bool = False,
) -> tuple[Distilled, Evaluation]:
    """Perplexities of a text with a component in the place of the search: the component, and the numbers."""
    opened = the_store(store)
    test = source(text, dataset=dataset, embedded=embedded, split=split)
    found = load_distilled(opened, component)
    asked = queries(opened, test, model, progress, device)
    return found, evaluate_distilled(asked, found.component, found.lam if lam is None else lam)


class Loaded(NamedTuple):
    """A kNN-LM ready to generate."""

    model: "KNNLMForCausalLM"
    tokenizer: Any


def load(
    store: str | Path | Store,
    *,
    model: str | Path | LanguageModel | None = None,
    component: str | None = None,
    key: str | None = None,
    metric: str | None = None,
    mask: str | None = None,
    score: Score | None = None,
    k: int | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    device: str | None = None,
    progress: bool = False,
) -> Loaded:
    """A store and its base LM as one Hugging Face model, at the tuned settings or given ones, and its tokenizer.

    `component` names one of the store's to use in the place of the search. The tokenizer begins texts with bos where
    the model has one, as the store's documents begin.
    """
    from knnlm.hf.model import KNNLMForCausalLM

    opened = the_store(store)
    if component is not None:
        refuse_retrieval(
            "--temperature-knn", key=key, metric=metric, mask=mask, score=score, k=k, temperature=temperature
        )
        found = load_distilled(opened, component)
        lm = the_model(opened, model, device)
        distilled = found if lam is None else found._replace(lam=lam)
        return Loaded(KNNLMForCausalLM.from_component(lm, opened, distilled), with_bos(lm.tokenizer))
    tuned = the_settings(
        opened, key=key, metric=metric, mask=mask, score=score, k=k, lam=lam, temperature=temperature,
        tau_option="--temperature-knn", progress=progress,
    )  # fmt: skip
    lm = the_model(opened, model, device)
    return Loaded(KNNLMForCausalLM.from_parts(lm, opened, tuned), with_bos(lm.tokenizer))


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
