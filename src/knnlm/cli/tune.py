"""knnlm tune"""

from typing import Annotated

import typer

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
    k: Annotated[
        str | None,
        typer.Option("--k", help="Neighbors (1024); several, comma-separated, are compared."),
    ] = None,
    temperatures: Annotated[
        str | None, typer.Option("--temperatures", help="A grid of τ instead of a search.")
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Find λ and τ on a validation text: λ exactly, τ by a search in units of the scores' spread.

    Example: knnlm tune store --embedded --exact
    """
    from knnlm.api import KNNLM

    if k is not None and not all(p.strip().lstrip("-").isdecimal() for p in k.split(",")):
        raise UsageError(f"--k '{k}' is not a list of whole numbers: write them like 64,1024")
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
    ks = None if k is None else [int(part) for part in k.split(",")]
    tuned = knnlm.tune(named, k=ks, temperatures=numbers(temperatures, "--temperatures")).settings
    fields = tuned.as_json()
    fields = {**(fields.pop("retrieval") or {}), **fields}
    spread = " × the neighbors' score spread" if tuned.retrieval is not None else " × its own τ"
    name = f"component {tuned.component}"
    if tuned.retrieval is not None:
        r = tuned.retrieval
        search = "exact search" if r.exact else f"index {r.index}, {r.score} scores"
        name = f"{r.key} {r.metric}, {search}, k {r.k}"
    lines = [
        f"{name}: λ {tuned.lam:.3f}, τ {tuned.temperature:.4g} "
        f"({tuned.temperature_units:.3g}{spread})",
        f"validation perplexity {tuned.base_ppl:.2f} → {tuned.interp_ppl:.2f} on "
        f"{tuned.tokens:,} tokens",
        f"next: knnlm eval {store} {'--embedded' if embedded else '--text TEST'}"
        + (f" --component {component}" if component else ""),
    ]
    show(json, fields, lines)
