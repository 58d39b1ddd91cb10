"""A component learned from a store and kept beside it, to be used in the place of the search.

    STORE/components/<name>.safetensors    the component at its tuned τ; header: model, λ, perplexities, how it began
    STORE/components/<name>.learning/      while it is learned; deleted when it is done

Learned from the store's rows and stopped, with τ and λ, by a validation text. Knows nothing of how it is used.
"""

import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knnlm.components.saved import Component, load_component, save_component
from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.evaluation import Tuned
from knnlm.files import checksum_file, only_writer
from knnlm.learning.clustering import cluster
from knnlm.learning.fit import Fit
from knnlm.learning.learn import Soft, learn, states_of
from knnlm.learning.soft import soft_targets
from knnlm.learning.substitutes import Substitute, begin, begin_clusters
from knnlm.learning.temperature import at_best_tau
from knnlm.lm.load import LanguageModel
from knnlm.metrics import perplexity
from knnlm.states.store import Store
from knnlm.taps.head import output_embedding

FOLDER, SUFFIX = "components", ".safetensors"
HOW = Fit(lr=3e-4, epochs=4, looks=2, patience=3)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Distilled(NamedTuple):
    """A component with its λ. `about` has the rest of what is known of it, as JSON."""

    name: str
    component: Component
    lam: float
    about: dict[str, Any]


def distill(
    store: Store,
    valid: Store,
    lm: LanguageModel,
    what: Substitute,
    *,
    name: str,
    how: Fit = HOW,
    taught: float = 0.0,
    teacher: Tuned | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Distilled:
    """Learn `what` from the store; `taught` is the share of the loss that neighbours in other documents teach, at the
    key, metric, k and τ of `teacher`. A component of that name is replaced when the new one is done."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is not a name for a component: use letters, digits, '.', '_' and '-'")
    if not 0 <= taught <= 1:
        raise UsageError(f"share {taught} taught by neighbours is out of range: choose 0 to 1")
    for key in what.keys:
        store.key(key)
    work = store.path / FOLDER / f"{name}.learning"
    states = states_of(valid, what.keys)
    about: dict[str, Any] = {"what": asdict(what), "taught": taught}
    aim = None
    if taught:
        assert teacher is not None
        t = teacher.retrieval
        table = soft_targets(store, t.key, t.metric, t.k, teacher.temperature, work / "soft", progress)
        aim = Soft(taught, table.columns["words"], table.columns["shares"])
        about["teacher"] = {"key": t.key, "metric": t.metric, "k": t.k, "temperature": teacher.temperature}
    module: Any
    if what.kind == "clusters":
        found = cluster(
            store, what.keys[0], what.size, what.metric, work / "clusters.safetensors", seed=seed, progress=progress
        )
        tuned = at_best_tau(found, valid.lm_logprob, states, valid.targets)
        module = begin_clusters(tuned.component)  # type: ignore[arg-type]
    else:
        module = begin(what, output_embedding(lm.model).weight, seed=seed)
    learned = learn(
        module, store, valid, work / "fit", how, seed=seed, aim=aim, stop_mixed=what.kind == "clusters", about=about,
        progress=progress,
    )  # fmt: skip
    best = at_best_tau(learned.component, valid.lm_logprob, states, valid.targets)
    about |= {
        "model": store.meta["model"]["fingerprint"], "store": store.fingerprint, "lambda": best.lam,
        "temperature": best.component.tau, "base_ppl": perplexity(valid.lm_logprob.astype(np.float64)),
        "interp_ppl": best.ppl, "tokens": valid.rows, "seed": seed, "steps": learned.fitted.steps,
        "rows_per_second": round(learned.fitted.rows_per_second),
    }  # fmt: skip
    with only_writer(store.path, patience=10):
        save_component(_file(store, name), best.component, about)
    shutil.rmtree(work)
    return Distilled(name, best.component, best.lam, about)


def list_distilled(store: Store) -> list[str]:
    """Names of the store's components."""
    return sorted(file.name.removesuffix(SUFFIX) for file in (store.path / FOLDER).glob(f"*{SUFFIX}"))


def load_distilled(store: Store, name: str) -> Distilled:
    """A component of a store, after checking that it was learned from the same model's states."""
    names = list_distilled(store)
    if not names:
        raise KnnlmError(f"{store.path} has no component: run 'knnlm distill {store.path}' first")
    if name not in names:
        raise unknown("component", name, names)
    saved = load_component(_file(store, name))
    if saved.about["model"] != store.meta["model"]["fingerprint"]:
        raise KnnlmError(
            f"component {name} of {store.path} was learned from another model's states: distill this store anew"
        )
    return Distilled(name, saved.component, float(saved.about["lambda"]), saved.about)


def component_checksum(store: Store, name: str) -> str:
    """Of a component's file."""
    file = _file(store, name)
    if not file.is_file():
        raise unknown("component", name, list_distilled(store))
    return checksum_file(file)


def _file(store: Store, name: str) -> Path:
    return store.path / FOLDER / f"{name}{SUFFIX}"
