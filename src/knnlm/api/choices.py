"""What a user leaves open, decided: the model that a datastore was built with, and how a component
is made from it (settings.py decides how it is searched)."""

from dataclasses import replace
from pathlib import Path

from knnlm.datastore import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import choose_settings
from knnlm.models import LanguageModel, load_model
from knnlm.training import DEFAULT_FIT, KINDS, DistillRequest, component_spec


def model_of(
    entries: Entries, model: str | Path | LanguageModel | None, device: str | None
) -> LanguageModel:
    """The model given, or the one that the datastore was built with, in the same precision.

    Raises:
        KnnlmError: If it cannot be opened, or is another model than the datastore's.
    """
    if isinstance(model, LanguageModel):
        lm = model
    else:
        precision = str(entries.meta["model"]["precision"])
        source = entries.model_source if model is None else model
        try:
            lm = load_model(source, device=device, precision=precision, adapter=entries.adapter)
        except KnnlmError as error:
            if model is not None or not Path(source).is_absolute() or Path(source).exists():
                raise
            raise KnnlmError(
                f"the model of {entries.path} is not where it was: say where with `model` ({error})"
            ) from error
    entries.require_model(lm)
    return lm


def distill_request(
    entries: Entries,
    *,
    name: str | None,
    kind: str,
    key: str | None,
    size: int | None,
    metric: str | None,
    soft_targets: float,
    lr: float | None,
    epochs: int | None,
    seed: int,
) -> DistillRequest:
    """How to make a component; what is None is the default of its kind.

    Raises:
        UsageError: A setting is unknown, out of range or not for this kind; or neighbors are to
            teach and the datastore is not tuned.
        KnnlmError: The datastore does not hold the hidden states that the kind reads.
    """
    spec = component_spec(entries, kind, key, size, metric)
    if name is None:
        name = kind if key is None else f"{kind}-{key}"
    wanted = {} if key is None else {"key": key}
    teacher = choose_settings(entries, **wanted) if soft_targets else None
    if soft_targets and teacher is None and spec.kind != "clusters":
        raise UsageError(
            f"{entries.path} is not tuned, and neighbors teach at the tuned temperature: run "
            "`KNNLM.tune` first"
        )
    if spec.kind == "clusters" and lr is not None and epochs is None:
        raise UsageError(
            "clusters are trained further only if `epochs` is given: give it too, or leave out `lr`"
        )
    fit = None
    if spec.kind != "clusters" or epochs is not None:
        fit = replace(
            DEFAULT_FIT,
            lr=KINDS[spec.kind].learning_rate if lr is None else lr,
            epochs=DEFAULT_FIT.epochs if epochs is None else epochs,
        )
    return DistillRequest(
        spec=spec, name=name, fit=fit, soft_targets=soft_targets, teacher=teacher, seed=seed
    )
