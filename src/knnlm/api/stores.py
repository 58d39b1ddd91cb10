"""A base LM, a store, an index, its settings, and what they give. Knows nothing of generation or of
components."""

from collections.abc import Sequence
from pathlib import Path

from knnlm.api.texts import Text, queries, source, warn_of_few, warn_of_same_text
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.evaluation.settings import save_settings
from knnlm.evaluation.tuning import Evaluation, TunedSettings
from knnlm.evaluation.tuning import evaluate as evaluate_queries
from knnlm.evaluation.tuning import tune as tune_queries
from knnlm.files import fingerprint
from knnlm.models.load import LanguageModel, load_model
from knnlm.models.presets import Preset
from knnlm.models.presets import preset as preset_named
from knnlm.resolve import check_retrieval, default_mask, the_settings, the_store
from knnlm.search.exact import check_k
from knnlm.search.factory import NPROBE
from knnlm.search.index import RECALL_FLOOR, Index, build_index
from knnlm.search.retrieval import Retrieval, Score
from knnlm.similarity import checked_metric
from knnlm.text.documents import Split
from knnlm.text.portions import HeldOut
from knnlm.training.language_model import TrainingResult
from knnlm.training.language_model import train as train_model


def train(
    out: str | Path,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    valid: Text = None,
    preset: str | Preset = "demo",
    seed: int = 0,
) -> TrainingResult:
    """Train a base LM from scratch into `out`. Without a validation text, WikiText folders, data
    sets and the embedded text use their own; other texts hold out the last 5% of each document."""
    chosen = preset_named(preset) if isinstance(preset, str) else preset
    training = source(text, dataset=dataset, embedded=embedded, split="train")
    if valid is not None:
        validation = source(valid, split="valid")
    else:
        validation = source(text, dataset=dataset, embedded=embedded, split="valid")
        if validation == training:
            training, validation = HeldOut(training, "train"), HeldOut(training, "valid")
    return train_model(training, validation, chosen, Path(out), seed=seed)


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
) -> Entries:
    """Store what `model` sees in a text: the datastore.

    `device`, `precision` and `adapter` say how to open the model (see load_model).
    """
    training = source(text, dataset=dataset, embedded=embedded, split="train")
    if not isinstance(model, LanguageModel):
        model = load_model(model, device=device, precision=precision, adapter=adapter)
    return build_entries(
        model,
        training,
        Path(out),
        keys=keys,
        att_module=att_module,
        window=window,
        stride=stride,
        logprobs=logprobs,
        dtype=dtype,
    )


def index(
    store: str | Path | Entries,
    *,
    key: str | None = None,
    metric: str = "l2",
    factory: str | None = None,
    nprobe: int = NPROBE,
    recall_floor: float = RECALL_FLOOR,
) -> Index:
    """Build a FAISS index of one key of a store, tested against exact search."""
    opened = the_store(store)
    return build_index(
        opened,
        key or opened.keys[0],
        checked_metric(metric),
        factory=factory,
        nprobe=nprobe,
        recall_floor=recall_floor,
    )


def tune(
    store: str | Path | Entries,
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
) -> TunedSettings:
    """Fit λ and τ (and k, of several) on a validation text and keep them with the store.

    `mask` is "exact" or an index's name; by default the store's index of that key and metric, or
    exact search."""
    opened = the_store(store)
    held_out = source(text, dataset=dataset, embedded=embedded, split="valid")
    ks = [k] if isinstance(k, int) else list(k)
    if not ks:
        raise UsageError("no k given: give at least one")
    key = key or opened.keys[0]
    opened.key(key)
    for value in ks:
        check_k(value)
    chosen = mask or default_mask(opened, key, checked_metric(metric))
    what = Retrieval(key=key, metric=checked_metric(metric), mask=chosen, score=score, k=max(ks))
    check_retrieval(opened, what)
    found = tune_queries(
        opened, queries(opened, held_out, model, device), what, temperatures=temperatures, ks=ks
    )._replace(text=fingerprint(held_out.describe()))
    warn_of_few(found.tokens)
    save_settings(opened, found)
    return found


def evaluate(
    store: str | Path | Entries,
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
) -> tuple[TunedSettings, Evaluation]:
    """Perplexities of a text under the store's tuned settings, or given ones: the settings used,
    and the numbers."""
    opened = the_store(store)
    test = source(text, dataset=dataset, embedded=embedded, split=split)
    tuned = the_settings(
        opened,
        key=key,
        metric=metric,
        mask=mask,
        score=score,
        k=k,
        lam=lam,
        temperature=temperature,
    )
    warn_of_same_text(tuned.text == fingerprint(test.describe()))
    found = evaluate_queries(opened, queries(opened, test, model, device), tuned)
    return tuned, found
