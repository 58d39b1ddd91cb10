"""What is made of a store in the place of the search. Knows nothing of how it is made or used."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from knnlm.api.texts import Text, queries, source, warn_of_few, warn_of_same_text
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.evaluation.settings import choose_settings
from knnlm.evaluation.tuning import Evaluation
from knnlm.evaluation.tuning import evaluate_component as evaluate_distilled
from knnlm.models.load import LanguageModel
from knnlm.resolve import the_model, the_store, the_substitute, the_validation
from knnlm.text.documents import Split
from knnlm.training.defaults import KIND, LEARNING_RATES
from knnlm.training.distillation import Distilled, load_distilled, tuned_on
from knnlm.training.distillation import combine as combine_states
from knnlm.training.distillation import distill as distill_states
from knnlm.training.learn import DEFAULT_FIT


def distill(
    store: str | Path | Entries,
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
) -> Distilled:
    """Make a component of the store's rows that `evaluate` and `load` can use in the place of the
    search.

    Mixed, and stopped if it is learned, by a validation text: the one given, or else the one that
    the store was tuned on. Clusters are learned further only where `epochs` is given. `name` is the
    kind, and the key if one is given; `size` counts clusters, embeddings a word, softmaxes, or the
    inner width of a network, which reads att and ffn; `taught` is the share of the loss that
    neighbours in other documents teach."""
    opened = the_store(store)
    what = the_substitute(opened, kind, key, size, metric)
    name = name if name is not None else kind if key is None else f"{kind}-{key}"
    teacher = choose_settings(opened, key=key) if taught else None
    if taught and teacher is None and what.kind != "clusters":  # to which nothing can be taught
        raise UsageError(
            f"{opened.path} is not tuned, and neighbours teach at the tuned τ: run 'knnlm tune' "
            "first"
        )
    if what.kind == "clusters" and lr is not None and epochs is None:
        raise UsageError(
            "clusters are learned further only if --epochs is given: give it too, or leave out --lr"
        )
    how = None
    if what.kind != "clusters" or epochs is not None:
        rate = LEARNING_RATES[what.kind] if lr is None else lr
        how = replace(DEFAULT_FIT, lr=rate, epochs=DEFAULT_FIT.epochs if epochs is None else epochs)
    lm = the_model(opened, model, device)
    valid = _validation(opened, text, dataset, embedded, lm, device)
    return distill_states(
        opened, valid, lm, what, name=name, how=how, taught=taught, teacher=teacher, seed=seed
    )


def combine(
    store: str | Path | Entries,
    components: Sequence[str],
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    model: str | Path | LanguageModel | None = None,
    name: str = "together",
    device: str | None = None,
) -> Distilled:
    """Mix components of a store into one, shares and λ fitted together on the validation text."""
    opened = the_store(store)
    valid = _validation(opened, text, dataset, embedded, model, device)
    return combine_states(opened, valid, components, name=name)


def evaluate_component(
    store: str | Path | Entries,
    component: str,
    text: Text = None,
    *,
    dataset: str | None = None,
    embedded: bool = False,
    split: Split = "test",
    model: str | Path | LanguageModel | None = None,
    lam: float | None = None,
    device: str | None = None,
) -> tuple[Distilled, Evaluation]:
    """Perplexities of a text with a component in the place of the search: the component, and the
    numbers."""
    opened = the_store(store)
    test = source(text, dataset=dataset, embedded=embedded, split=split)
    found = load_distilled(opened, component)
    asked = queries(opened, test, model, device)
    result = evaluate_distilled(asked, found.component, found.lam if lam is None else lam)
    warn_of_same_text(tuned_on(found.about, result.tokens, result.base_ppl))
    return found, result


def _validation(
    store: Entries,
    text: Text,
    dataset: str | None,
    embedded: bool,
    model: str | Path | LanguageModel | None,
    device: str | None,
) -> Entries:
    """The text given, or else the one that the store was tuned on."""
    if text is None and dataset is None and not embedded:
        return the_validation(store)
    found = queries(
        store, source(text, dataset=dataset, embedded=embedded, split="valid"), model, device
    )
    warn_of_few(found.count)
    return found
