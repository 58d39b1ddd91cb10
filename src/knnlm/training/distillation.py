"""A component made from a store and kept beside it, to be used in the place of the search.

    STORE/components/<name>/component.json        λ, τ, model, how it was learned, and the file that holds it
    STORE/components/<name>/<xxh3>.safetensors    the component; its name is its checksum
    STORE/components/<name>/learning/<request>/   while it is learned; deleted when it is done

The JSON is replaced in one step after the file is there, so a name stands for the old component or
the new one. Learned from the store's rows and stopped, with τ and λ, by a validation text. Knows
nothing of how it is used."""

import contextlib
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from knnlm.components.mixture import Mixture
from knnlm.components.saving import Component, load_component, save_component
from knnlm.components.single import Single
from knnlm.datastore.entries import Entries, states_of
from knnlm.errors import DamagedError, KnnlmError, UsageError, unknown
from knnlm.evaluation.component_temperature import at_best_tau
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_shares, mix_all
from knnlm.evaluation.tuning import TunedSettings
from knnlm.files import canonical, checksum_file, fingerprint, read_json, write_json, write_lock
from knnlm.hidden_states.output_head import output_embedding
from knnlm.models.load import LanguageModel
from knnlm.progress import log
from knnlm.training.clustering import cluster
from knnlm.training.fit import FitSettings
from knnlm.training.initial import ComponentSpec, begin, initial_clusters
from knnlm.training.learn import Soft, learn
from knnlm.training.soft_targets import soft_targets

FOLDER, RECORD, WORK = "components", "component.json", "learning"
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Distilled(NamedTuple):
    """A component with its λ. `about` has the rest of what is known of it, as JSON."""

    name: str
    component: Component
    lam: float
    about: dict[str, Any]


def distill(
    store: Entries,
    valid: Entries,
    lm: LanguageModel,
    what: ComponentSpec,
    *,
    name: str,
    how: FitSettings | None,
    taught: float = 0.0,
    teacher: TunedSettings | None = None,
    seed: int = 0,
) -> Distilled:
    """Make `what` of the store; without a `how` clusters stay as k-means leaves them. `taught` is
    the share of the loss that neighbours in other documents teach, at the key, metric, k and τ of
    `teacher`. A component of that name is replaced when the new one is done."""
    _check(store, what, name, how, taught, seed)
    folder = store.path / FOLDER / name
    about: dict[str, Any] = {
        "what": asdict(what),
        "taught": taught,
        "how": how and how.settings(),
        "seed": seed,
        "store": store.fingerprint,
        "model": store.meta["model"]["fingerprint"],
        "valid": valid.fingerprint,
    }
    if taught:
        assert teacher is not None
        t = teacher.retrieval
        about["teacher"] = {
            "key": t.key,
            "metric": t.metric,
            "k": t.k,
            "temperature": teacher.temperature,
        }
    work = folder / WORK / fingerprint(about)[:16]  # another request finds nothing of this one
    if (known := _known(store, name, about)) is not None:
        log.info(f"component {name} of {store.path} is there already")
        _clear(work)  # of a run that was killed after its record was there
        return known
    states = states_of(valid, what.keys)
    module: Any
    steps = 0
    if what.kind == "clusters":
        file = work / "clusters.safetensors"
        found = cluster(store, what.keys[0], what.size, what.metric, file, seed=seed)
        best = at_best_tau(found, valid.lm_logprob, states, valid.targets)
        module = None if how is None else initial_clusters(best.component)  # type: ignore[arg-type]
    else:
        module = begin(what, _one_row_a_word(store, output_embedding(lm.model).weight), seed=seed)
    aim = None
    if taught:
        table = soft_targets(
            store,
            out=work / "soft",
            tau=about["teacher"]["temperature"],
            **{n: about["teacher"][n] for n in ("key", "metric", "k")},
        )
        aim = Soft(taught, table.columns["words"], table.columns["shares"])
    if how is not None:
        learned = learn(module, store, valid, work / "fit", how, seed=seed, aim=aim, about=about)
        best = at_best_tau(learned.component, valid.lm_logprob, states, valid.targets)
        steps = learned.fitted.steps
    about |= {
        "lambda": best.lam,
        "temperature": best.component.tau,
        "interp_ppl": best.ppl,
        "tokens": valid.count,
        "base_ppl": perplexity(valid.lm_logprob.astype(np.float64)),
        "steps": steps,
    }
    _publish(store, name, best.component, about)
    _clear(work)
    return Distilled(name, best.component, best.lam, about)


def combine(
    store: Entries,
    valid: Entries,
    names: Sequence[str],
    *,
    name: str,
) -> Distilled:
    """Components of the store mixed with each other, their shares and λ fitted together on a
    validation text."""
    if name in names:
        raise UsageError(f"'{name}' is one of those that are to be mixed: choose another --name")
    if len(dict.fromkeys(names)) < 2:
        raise UsageError(
            "one component is not a mixture: name two or more, with commas between them"
        )
    _check_name(name)
    found = [load_distilled(store, other) for other in dict.fromkeys(names)]
    parts: list[Single] = []
    for other in found:
        parts += (
            other.component.parts if isinstance(other.component, Mixture) else [other.component]
        )
    log.info(f"shares of {len(parts)} components: {valid.count:,} tokens")
    lm = valid.lm_logprob.astype(np.float64)
    logs = [
        lm,
        *(part.target_logprobs(states_of(valid, part.keys), valid.targets) for part in parts),
    ]
    shares = fit_shares(logs)
    lam = 1 - shares[0]
    mixed = Mixture(
        tuple(parts),
        tuple(s / lam for s in shares[1:]) if lam > 0 else (1 / len(parts),) * len(parts),
    )
    about: dict[str, Any] = {
        "what": {
            "kind": "together",
            "of": {other.name: other.about["xxh3"] for other in found},
            "keys": mixed.keys,
        },
        "taught": 0.0,
        "how": None,
        "seed": 0,
        "store": store.fingerprint,
        "model": store.meta["model"]["fingerprint"],
        "valid": valid.fingerprint,
        "shares": list(mixed.shares),
        "lambda": lam,
        "temperature": mixed.tau,
        "interp_ppl": perplexity(mix_all(logs, shares)),
        "tokens": valid.count,
        "base_ppl": perplexity(lm),
        "steps": 0,
    }
    _publish(store, name, mixed, about)
    return Distilled(name, mixed, lam, about)


def _known(store: Entries, name: str, about: dict[str, Any]) -> Distilled | None:
    """The component of that name, if it was learned in just this way and is whole."""
    if name not in list_distilled(store):
        return None
    before = about_distilled(store, name)
    if any(canonical(before.get(field)) != canonical(value) for field, value in about.items()):
        return None
    try:
        return load_distilled(store, name)
    except DamagedError:
        return None


def _one_row_a_word(store: Entries, w_sm: torch.Tensor) -> torch.Tensor:
    if len(w_sm) != store.vocab_size:
        raise KnnlmError(
            f"the model of {store.path} has {len(w_sm):,} output embeddings for "
            f"{store.vocab_size:,} words, and what "
            "is learned begins with one for each: use --kind clusters, or a model with one"
        )
    return w_sm


def _check(
    store: Entries,
    what: ComponentSpec,
    name: str,
    how: FitSettings | None,
    taught: float,
    seed: int,
) -> None:
    """Find what cannot be done before any work."""
    _check_name(name)
    if how is None and what.kind != "clusters":
        raise ValueError(f"{what.kind} have to be learned: only clusters are something before that")
    if not 0 <= taught <= 1:
        raise UsageError(f"share {taught} taught by neighbours is out of range: choose 0 to 1")
    if taught and what.kind == "clusters":
        raise UsageError(
            "clusters hold some words impossible, so nothing can be taught to them: choose --kind "
            "embeddings, or leave "
            "out --taught"
        )
    if seed < 0:
        raise UsageError(f"seed {seed} is out of range: choose 0 or more")
    for key in what.keys:
        store.key(key)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a name for a component: use letters, digits, '.', '_' and '-'"
        )


def tuned_on(about: dict[str, Any], tokens: int, base_ppl: float) -> bool:
    """Whether a text is the one that a component was tuned on, by its length and the LM's
    perplexity of it."""
    return bool(tokens == about["tokens"] and math.isclose(base_ppl, about["base_ppl"]))


def _publish(store: Entries, name: str, component: Component, about: dict[str, Any]) -> None:
    """Put the file there, then the record that names it, then take away what was there before."""
    folder = store.path / FOLDER / name
    with write_lock(store.path, patience=10):
        draft = folder / "component.draft"
        save_component(draft, component, {})
        checksum = checksum_file(draft)
        file = folder / f"{checksum}.safetensors"
        draft.rename(file)
        about |= {"file": file.name, "xxh3": checksum}
        write_json(folder / RECORD, {"format": FORMAT, **about})
        for other in folder.glob("*.safetensors"):
            if other != file:
                other.unlink()


def _clear(work: Path) -> None:
    """Take away what a request worked with, and nothing of another request for the same name."""
    shutil.rmtree(work, ignore_errors=True)
    with contextlib.suppress(OSError):
        work.parent.rmdir()


def list_distilled(store: Entries) -> list[str]:
    """Names of the store's components."""
    return sorted(file.parent.name for file in (store.path / FOLDER).glob(f"*/{RECORD}"))


def about_distilled(store: Entries, name: str) -> dict[str, Any]:
    """What is known of a component, without reading it."""
    names = list_distilled(store)
    if not names:
        raise KnnlmError(f"{store.path} has no component: run 'knnlm distill {store.path}' first")
    if name not in names:
        raise unknown("component", name, names)
    return read_json(store.path / FOLDER / name / RECORD, newest_format=FORMAT)


def _command(store: Entries, about: dict[str, Any], name: str) -> str:
    """What makes a component of that name again, on the text that the store was tuned on."""
    what, how = about["what"], about["how"]
    if what["kind"] == "together":
        return f"knnlm distill {store.path} --of {','.join(what['of'])} --name {name}"
    words = [
        "knnlm distill",
        str(store.path),
        "--name",
        name,
        "--kind",
        what["kind"],
        "--size",
        str(what["size"]),
    ]
    words += [] if what["kind"] == "network" else ["--key", what["keys"][0]]
    words += ["--metric", what["metric"]] if what["kind"] in ("embeddings", "clusters") else []
    words += ["--taught", f"{about['taught']:g}"] if about["taught"] else []
    words += [] if how is None else ["--epochs", str(how["epochs"]), "--lr", f"{how['lr']:g}"]
    return " ".join([*words, *(["--seed", str(about["seed"])] if about["seed"] else [])])


def load_distilled(store: Entries, name: str) -> Distilled:
    """A component of a store, after checking its bytes and that it was learned from the same
    model's states."""
    about = about_distilled(store, name)
    again = f"run '{_command(store, about, name)}' again"
    if about["model"] != store.meta["model"]["fingerprint"]:
        raise KnnlmError(
            f"component {name} of {store.path} was learned from another model's states: {again}"
        )
    if about["store"] != store.fingerprint:
        log.warning(
            f"note: {store.path} has changed since component {name} was learned from it; {again} "
            "to follow it"
        )
    file = store.path / FOLDER / name / str(about["file"])
    try:
        if checksum_file(file) != about["xxh3"]:
            raise DamagedError(f"{file} is damaged")
        component = load_component(file).component
    except (DamagedError, OSError) as error:
        raise DamagedError(
            f"component {name} of {store.path} is damaged or missing: {again}"
        ) from error
    return Distilled(name, component, float(about["lambda"]), about)
