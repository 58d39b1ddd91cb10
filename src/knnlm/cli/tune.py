"""knnlm tune"""

import shlex
from typing import Annotated

import typer

from knnlm import defaults
from knnlm.cli.options import (
    ComponentName,
    Dataset,
    Device,
    Exact,
    IndexName,
    Json,
    Key,
    Metric,
    Model,
    ScoreName,
    StorePath,
    Texts,
    UseEmbedded,
    checked_score,
    named_text,
    numbers,
    show,
)
from knnlm.errors import UsageError

Ks = Annotated[
    str | None,
    typer.Option("--k", help=f"Neighbors ({defaults.K}); of several, as in 64,1024, the best."),
]
Taus = Annotated[
    str | None,
    typer.Option("--taus", help="A grid of τ, as in 0.5,1,2, instead of a search."),
]


def tune(
    store: StorePath,
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    model: Model = None,
    component: ComponentName = None,
    key: Key = None,
    metric: Metric = None,
    index: IndexName = None,
    exact: Exact = False,
    score: ScoreName = None,
    k: Ks = None,
    taus: Taus = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Find λ and τ on a validation text and keep them.

    λ is fitted exactly; τ is searched in units of the spread of the neighbors' scores.

    Example: knnlm tune store --embedded --exact
    """
    from knnlm.api import KNNLM

    ks = _whole_numbers(k)
    knnlm = KNNLM(
        store,
        component=component or "knn",
        key=key,
        metric=metric,
        index=index,
        exact=exact,
        score=checked_score(score),
        model=model,
        device=device,
    )
    named = named_text(text, dataset, embedded)
    tuned = knnlm.tune(named, k=ks, taus=numbers(taus, "--taus")).settings
    text_option = "--embedded" if embedded else "--text TEST"
    search_option = " --exact" if exact else f" --index {index}" if index else ""
    following = f"knnlm eval {shlex.quote(str(store))} {text_option}{search_option}"
    if component:
        following += f" --component {component}"
    fields = tuned.as_json()
    fields = {**(fields.pop("retrieval") or {}), **fields}
    show(json, fields, [str(tuned), tuned.validation, f"next: {following}"])


def _whole_numbers(given: str | None) -> list[int] | None:
    if given is None:
        return None
    if not all(part.strip().lstrip("-").isdecimal() for part in given.split(",")):
        raise UsageError(f"--k '{given}' is not a list of whole numbers: write them like 64,1024")
    return [int(part) for part in given.split(",")]
