"""Distillation: a component made from a datastore's entries and kept with it.

    DATASTORE/components/<name>/           the component (components/stored.py)
    DATASTORE/components/<name>/learning/  while it is made; deleted when it is done

Made from the entries, stopped and tuned by a validation text; its λ and τ go to the settings of the
datastore, like those of the neighbors.
"""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knnlm.components import (
    KNN_NAME,
    Component,
    Mixture,
    check_component_name,
    component_folder,
    component_record,
    list_components,
    load_stored,
    open_component,
    publish_component,
)
from knnlm.datastore import Entries
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.evaluation import (
    TunedSettings,
    choose_settings,
    fit_control,
    fit_weights,
    forget_settings,
    save_settings,
    tune,
)
from knnlm.files import canonical, fingerprint
from knnlm.hidden_states import output_embedding
from knnlm.models import LanguageModel
from knnlm.progress import log
from knnlm.ranges import check_path, check_seed
from knnlm.training.clustering import cluster
from knnlm.training.fit import FitSettings
from knnlm.training.initial import initial_clusters, initial_module
from knnlm.training.kinds import KINDS, ComponentSpec
from knnlm.training.learn import learn
from knnlm.training.objectives import Objective, SoftTargetLoss
from knnlm.training.soft_targets import soft_targets

WORK = "learning"
_SOFT, _FIT = "soft", "fit"


@dataclass(frozen=True)
class Distilled:
    """A component that is kept with a datastore: its name, its settings, and how it was made.

    Example:
        >>> distilled = store.distill("valid.txt", kind="clusters", size=512)    # doctest: +SKIP
        >>> distilled.settings.lam, distilled.settings.interp_ppl                # doctest: +SKIP
        >>> KNNLM(store, component=distilled.name).evaluate("test.txt")          # doctest: +SKIP
    """

    name: str
    component: Component
    settings: TunedSettings
    record: dict[str, Any]

    def __repr__(self) -> str:
        keys = " and ".join(self.component.keys)
        made = f"{self.record['kind']} on {keys}"
        return f"Distilled({made}; {self.settings}; {self.settings.validation})"


@dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """How to make a component.

    Without `fit`, clusters stay as k-means leaves them; every other kind has to be trained.
    `soft_targets` is the share of the loss that the votes of neighbors in other documents have, at
    the key, metric, k and τ of `teacher`.
    """

    spec: ComponentSpec
    name: str
    fit: FitSettings | None = None
    soft_targets: float = 0.0
    teacher: TunedSettings | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_component_name(self.name)
        if self.fit is None and self.spec.kind != "clusters":
            raise ValueError(f"a {self.spec.kind} component has to be trained: give `fit`")
        if not 0 <= self.soft_targets <= 1:
            raise UsageError(
                f"share {self.soft_targets} of soft targets is out of range: choose 0 to 1"
            )
        if self.soft_targets and self.spec.kind == "clusters":
            raise UsageError(
                "clusters hold some tokens impossible, so soft targets cannot teach them: choose "
                "kind head, or leave out soft targets"
            )
        check_seed(self.seed)

    def as_json(self) -> dict[str, Any]:
        """All that the component depends on beside datastore, model and validation text."""
        fields: dict[str, Any] = {
            "spec": {**asdict(self.spec), "keys": list(self.spec.keys)},
            "soft_targets": self.soft_targets,
            "fit": None if self.fit is None else self.fit.settings(),
            "seed": self.seed,
        }
        if self.soft_targets:
            assert self.teacher is not None
            assert self.teacher.retrieval is not None
            retrieval = self.teacher.retrieval
            fields["teacher"] = {
                "key": retrieval.key,
                "metric": retrieval.metric,
                "k": retrieval.k,
                "temperature": self.teacher.tau,
            }
        return fields

    def command(self, store: Path) -> str:
        """The command that makes it again, on the text that the datastore was tuned on."""
        spec, words = self.spec, ["knnlm", "distill", str(store), "--name", self.name]
        words += ["--kind", spec.kind, "--size", str(spec.size)]
        words += [] if self._default_key else ["--key", spec.keys[0]]
        words += ["--metric", spec.metric] if len(KINDS[spec.kind].metrics) > 1 else []
        words += ["--soft-targets", repr(self.soft_targets)] if self.soft_targets else []
        if self.fit is not None:
            words += ["--epochs", str(self.fit.epochs), "--lr", repr(self.fit.lr)]
        return shlex.join([*words, *(["--seed", str(self.seed)] if self.seed else [])])

    @property
    def _default_key(self) -> bool:
        """Whether no key was asked for: a key that is asked for is the teacher's too."""
        if KINDS[self.spec.kind].reads_every_key:
            return True
        retrieval = None if self.teacher is None else self.teacher.retrieval
        return retrieval is not None and retrieval.key != self.spec.keys[0]


def distill(
    store: Entries, valid: Entries, lm: LanguageModel, request: DistillRequest
) -> Distilled:
    """Make a component from a datastore's entries; one of the same name is replaced at the end.

    Args:
        store: The datastore.
        valid: The validation text, read by the same model.
        lm: That model: what is trained starts from its output embedding.
        request: Which component, and how.

    Returns:
        The component with its tuned λ and τ; at once, if it was made in just this way before.
    """
    check_path(store.path)
    for key in request.spec.keys:
        store.key(key)
    about = {**request.as_json(), "valid": valid.fingerprint}
    folder = component_folder(store, request.name)
    # another request finds nothing of this one
    identity = {**about, "store": store.fingerprint, "model": store.meta["model"]["fingerprint"]}
    work = folder / WORK / fingerprint(identity)[:16]
    for made in (work, work / _SOFT, work / _FIT):
        refuse_links(made, below=store.path)
    known = _made_before(store, request.name, about)
    if known is not None:
        log.info(f"component {request.name} of {store.path} is there already")
        _clear(store, work)  # of a run that was killed after its record was there
        return known
    control = fit_control(lm.model, store, valid)
    component, steps = _make(store, valid, lm, request, about, work)
    tuned = tune(component, valid, name=request.name, control=control)
    about |= {"steps": steps, "command": request.command(store.path)}
    distilled = _keep(store, request.name, tuned.component, tuned.settings, about)
    _clear(store, work)
    return distilled


def combine(
    store: Entries, valid: Entries, lm: LanguageModel, names: Sequence[str], *, name: str
) -> Distilled:
    """Mix components of a datastore into one, their weights and λ fitted together.

    Args:
        store: The datastore.
        valid: The validation text, read by the same model.
        lm: That model, for the control.
        names: Components of the datastore, or "knn" for the neighbors at their tuned settings.
        name: What to call the mixture.
    """
    check_path(store.path)
    check_component_name(name)
    distinct = list(dict.fromkeys(names))
    if name in distinct:
        raise UsageError(f"'{name}' is one of those that are to be mixed: choose another name")
    if len(distinct) < 2:
        raise UsageError("one component is not a mixture: name two or more")
    parts: list[Component] = []
    for each in distinct:
        component = _tuned(store, each)
        parts += component.parts if isinstance(component, Mixture) else [component]
    log.info(f"weights of {len(parts)} components: {valid.count:,} tokens")
    base = valid.lm_logprob.astype("float64")
    weights = fit_weights([base, *(part.target_logprobs(valid) for part in parts)])
    lam = 1 - weights[0]
    equal = (1 / len(parts),) * len(parts)
    mixture = Mixture(tuple(parts), tuple(w / lam for w in weights[1:]) if lam > 0 else equal)
    control = fit_control(lm.model, store, valid)
    settings = tune(mixture, valid, name=name, control=control).settings
    words = ["knnlm", "distill", str(store.path), "--mix", ",".join(distinct), "--name", name]
    about = {
        "mixed": distinct,
        "weights": list(mixture.weights),
        "valid": valid.fingerprint,
        "steps": 0,
        "command": shlex.join(words),
    }
    return _keep(store, name, mixture, settings, about)


def load_distilled(store: Entries, name: str) -> Distilled:
    """A component of a datastore with its tuned settings.

    Raises:
        KnnlmError: If there is none of that name, or it is not tuned.
    """
    record = component_record(store, name)
    settings = choose_settings(store, name)
    if settings is None:
        raise KnnlmError(
            f"component {name} of {store.path} is not tuned: run `KNNLM.tune` with `component` "
            f"{name} first"
        )
    component = load_stored(store, name).at_temperature(settings.tau)
    return Distilled(name, component, settings, record)


def _tuned(store: Entries, name: str) -> Component:
    """A component at its tuned τ."""
    settings = choose_settings(store, name)
    if settings is None:
        if name != KNN_NAME:
            return load_distilled(store, name).component  # says what is missing
        raise KnnlmError(f"{store.path} is not tuned: run `KNNLM.tune` first")
    return open_component(store, name, settings.retrieval, settings.tau)


def _make(
    store: Entries,
    valid: Entries,
    lm: LanguageModel,
    request: DistillRequest,
    about: dict[str, Any],
    work: Path,
) -> tuple[Component, int]:
    """The component before it is tuned, and the updates that its training took."""
    spec = request.spec
    if spec.kind == "clusters":
        file = work / "clusters.safetensors"
        clusters = cluster(store, spec.keys[0], spec.size, spec.metric, file, seed=request.seed)
        if request.fit is None:
            return clusters, 0
        tau = tune(clusters, valid, name=request.name).settings.tau
        module = initial_clusters(clusters.at_temperature(tau))
    else:
        module = initial_module(spec, _one_embedding_each(store, lm), seed=request.seed)
    assert request.fit is not None
    objective: Objective | None = None
    if request.soft_targets:
        teacher = about["teacher"]
        where = {name: teacher[name] for name in ("key", "metric", "k")}
        table = soft_targets(store, out=work / _SOFT, tau=teacher["temperature"], **where)
        objective = SoftTargetLoss(
            request.soft_targets, table.columns["words"], table.columns["shares"]
        )
    learned = learn(
        module,
        store,
        valid,
        work / _FIT,
        request.fit,
        seed=request.seed,
        objective=objective,
        about=about,
    )
    return learned.component, learned.fit.steps


def _keep(
    store: Entries,
    name: str,
    component: Component,
    settings: TunedSettings,
    about: dict[str, Any],
) -> Distilled:
    """Publish the component, then its settings; those of an older one of that name go first."""
    forget_settings(store, name)
    record = publish_component(store, name, component, about)
    save_settings(store, settings)
    return Distilled(name, component, settings, record)


def _made_before(store: Entries, name: str, about: dict[str, Any]) -> Distilled | None:
    """The component of that name, if it was made in just this way and is whole."""
    if name not in list_components(store):
        return None
    try:
        record = component_record(store, name)
        if record["datastore"] != store.fingerprint:
            return None
        if any(canonical(record.get(field)) != canonical(value) for field, value in about.items()):
            return None
        return load_distilled(store, name)
    except KnnlmError as error:
        if not isinstance(error, DamagedError):
            log.info(f"{error}")
        return None


def _one_embedding_each(store: Entries, lm: LanguageModel) -> Any:
    """The LM's output embedding, which must have one row for each vocabulary entry."""
    w_sm = output_embedding(lm.model).weight
    if len(w_sm) != store.vocab_size:
        raise KnnlmError(
            f"the model of {store.path} has {len(w_sm):,} output embeddings for "
            f"{store.vocab_size:,} vocabulary entries, and training starts with one for each: use "
            "kind clusters, or a model with one"
        )
    return w_sm


def _clear(store: Entries, work: Path) -> None:
    """Delete what a request worked with, and nothing of another request for the same name."""
    remove_folder(work, below=store.path, ignore_errors=True)
    with contextlib.suppress(OSError):
        work.parent.rmdir()
