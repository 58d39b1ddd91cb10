"""Names → things: the store, model, index and settings that an argument or a store's own record
means.

Knows where things are kept and what to say when they are not there; does no work of its own.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from knnlm.datastore.entries import Entries, open_entries
from knnlm.datastore.manifest import MANIFEST
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation.settings import choose_settings, not_tuned
from knnlm.evaluation.tuning import TunedSettings
from knnlm.files import fingerprint
from knnlm.hidden_states import KEYS
from knnlm.models.load import LanguageModel, load_model
from knnlm.progress import log
from knnlm.search.index import index_manifest, list_indexes
from knnlm.search.retrieval import EXACT, Retrieval, Score, check_index
from knnlm.similarity import checked_metric
from knnlm.training.defaults import KIND, default_size
from knnlm.training.initial import ComponentSpec, checked_kind

CACHE = Path("cache") / "states"


def the_store(store: str | Path | Entries) -> Entries:
    """A store, opened if it is not."""
    return store if isinstance(store, Entries) else open_entries(store)


def the_model(
    store: Entries, given: str | Path | LanguageModel | None, device: str | None = None
) -> LanguageModel:
    """The model given, or the one that the store remembers, as it was when the store was built; no
    other fits."""
    if isinstance(given, LanguageModel):
        lm = given
    else:
        precision = str(store.meta["model"]["precision"])
        where = store.model_source if given is None else given
        try:
            lm = load_model(where, device=device, precision=precision, adapter=store.adapter)
        except KnnlmError as error:
            if given is not None or not Path(where).is_absolute() or Path(where).exists():
                raise
            raise KnnlmError(
                f"the model of {store.path} is not where it was: say where with --model ({error})"
            ) from error
    store.require_model(lm)
    return lm


def default_mask(
    store: Entries,
    key: str,
    metric: str,
) -> str:
    """The store's only index for this key and metric; exact search if there is none."""
    fitting = [name for name in list_indexes(store) if name.startswith(f"{key}-{metric}-")]
    if len(fitting) > 1:
        raise UsageError(
            f"{store.path} has several indexes of {key} and {metric}: name one with --index: "
            f"{', '.join(fitting)}"
        )
    if not fitting:
        log.info(f"{store.path} has no index of {key} and {metric}: searching exactly")
    return fitting[0] if fitting else EXACT


def the_settings(
    store: Entries,
    *,
    key: str | None = None,
    metric: str | None = None,
    mask: str | None = None,
    score: Score | None = None,
    k: int | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    tau_option: str = "--temperature",
) -> TunedSettings:
    """The store's tuned settings with what was given in their place; both λ and τ do without
    tuning.

    `tau_option` is what τ is called on the command line in question.
    """
    _check_names(store, key, metric, mask)
    wanted: dict[str, Any] = {"key": key, "metric": metric, "mask": mask}
    wanted["score"] = "exact" if mask == EXACT else score
    tuned = choose_settings(store, **wanted)
    if tuned is None:
        if lam is None or temperature is None:
            raise not_tuned(store, tau_option, **wanted)
        key, metric = key or store.keys[0], metric or "l2"
        chosen = mask or default_mask(store, key, metric)
        what = Retrieval(
            key=key,
            metric=checked_metric(metric),
            index=None if chosen == EXACT else chosen,
            score=score or "index",
        )
        tuned = TunedSettings(what, lam, temperature, math.nan, math.nan, math.nan, 0)
    tuned = _overridden(tuned, k, lam, temperature)
    check_retrieval(store, tuned.retrieval)
    return tuned


def _check_names(store: Entries, key: str | None, metric: str | None, mask: str | None) -> None:
    """A name that does not exist is not something to tune for."""
    if key is not None:
        store.key(key)
    if metric is not None:
        checked_metric(metric)
    if mask not in (None, EXACT):
        index_manifest(store, str(mask))


def check_retrieval(store: Entries, what: Retrieval) -> None:
    """Find a wrong name before an hour's work, not after."""
    store.key(what.key)
    check_index(store, what)


def _overridden(
    tuned: TunedSettings, k: int | None, lam: float | None, temperature: float | None
) -> TunedSettings:
    """Another τ keeps the unit it is measured in."""
    if k is not None:
        tuned = tuned._replace(retrieval=replace(tuned.retrieval, k=k))
    if lam is not None:
        tuned = tuned._replace(lam=lam)
    if temperature is not None:
        unit = tuned.temperature / tuned.temperature_units
        tuned = tuned._replace(temperature=temperature, temperature_units=temperature / unit)
    return tuned


def the_validation(store: Entries) -> Entries:
    """What the store's model saw in the text that the store was tuned on last."""
    tuned = choose_settings(store)
    if tuned is not None:
        for folder in sorted((store.path / CACHE).glob("*")):
            if (folder / MANIFEST).is_file():
                found = open_entries(folder)
                if fingerprint(found.meta["text"]) == tuned.text:
                    found.verify()
                    return found
    raise UsageError(
        f"{store.path} was not tuned, so it knows no validation text: give one with --text VALID"
    )


def the_substitute(
    store: Entries,
    kind: str = KIND,
    key: str | None = None,
    size: int | None = None,
    metric: str | None = None,
) -> ComponentSpec:
    """What to learn from a store, with the size and metric that its kind usually has."""
    chosen = checked_kind(kind)
    if chosen in ("network", "softmaxes") and metric not in (None, "ip"):
        raise UsageError(f"a {chosen} component scores by inner product: leave out --metric")
    if chosen == "network":
        if key is not None:
            raise UsageError("a network reads att and ffn: leave out --key")
        if not set(KEYS) <= set(store.keys):
            raise KnnlmError(
                f"a network reads att and ffn, and {store.path} holds only "
                f"{' and '.join(store.keys)} states: build it "
                "with --keys att,ffn"
            )
    usual = default_size(chosen, store.count, store.vocab_size, store.key(store.keys[0]).type.width)
    return ComponentSpec(
        kind=chosen,
        keys=tuple(KEYS) if chosen == "network" else (key or store.keys[0],),
        size=usual if size is None else size,
        metric=checked_metric(metric or ("l2" if chosen == "clusters" else "ip")),
    )


def refuse_retrieval(tau_option: str, **given: Any) -> None:
    """Options of a search where a component is used in its place."""
    options = {"mask": "--index and --exact", "temperature": tau_option}
    for name, value in given.items():
        if value is not None:
            raise UsageError(
                f"{options.get(name, f'--{name}')} belongs to a search: leave it out with "
                "--component"
            )


def refuse_learning(**given: Any) -> None:
    """Options of what is learned where components that are there are mixed."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} belongs to a new component: leave it out with --of")
