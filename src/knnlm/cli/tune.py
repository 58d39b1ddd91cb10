"""knnlm tune"""

from typing import Annotated

import typer

from knnlm.cli.options import (
    Dataset,
    Device,
    Exact,
    IndexName,
    Json,
    Key,
    Model,
    StorePath,
    Texts,
    UseEmbedded,
    mask,
    numbers,
    show,
)
from knnlm.search import defaults


def tune(
    store: StorePath,
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    model: Model = None,
    key: Key = None,
    metric: Annotated[str, typer.Option("--metric", help="l2 or ip.")] = "l2",
    index: IndexName = None,
    exact: Exact = False,
    score: Annotated[
        str, typer.Option("--score", help="index (the index's own scores) or exact.")
    ] = "index",
    k: Annotated[
        str, typer.Option("--k", help="Neighbours; several, comma-separated, are compared.")
    ] = str(defaults.K),
    temperatures: Annotated[
        str | None, typer.Option("--temperatures", help="A grid of τ instead of a search.")
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Find λ and τ on a validation text: λ exactly, τ by a bracketed search in units of the
    neighbours' score spread.

    Example: knnlm tune store --embedded --exact
    """
    from knnlm import api
    from knnlm.errors import UsageError, unknown

    if score not in ("index", "exact"):
        raise unknown("score", score, ("index", "exact"))
    if not all(part.strip().lstrip("-").isdecimal() for part in k.split(",")):
        raise UsageError(f"--k '{k}' is not a list of whole numbers: write them like 64,1024")
    ks = [int(part) for part in k.split(",")]
    found = api.tune(
        store,
        text or None,
        dataset=dataset,
        embedded=embedded,
        model=model,
        key=key,
        metric=metric,
        mask=mask(index, exact),
        score="exact" if score == "exact" else "index",
        k=ks,
        temperatures=numbers(temperatures, "--temperatures"),
        device=device,
    )
    fields = {
        **found.retrieval.as_json(),
        "lambda": found.lam,
        "temperature": found.temperature,
        "temperature_units": found.temperature_units,
        "tokens": found.tokens,
        "base_ppl": found.base_ppl,
        "interp_ppl": found.interp_ppl,
    }
    what = found.retrieval
    lines = [
        f"{what.key} {what.metric}, {what.search_name} search, {what.score} scores, k {what.k}: "
        f"λ {found.lam:.3f}, "
        f"τ {found.temperature:.4g} ({found.temperature_units:.3g} × the neighbours' score spread)",
        f"validation perplexity {found.base_ppl:.2f} → {found.interp_ppl:.2f} on {found.tokens:,} "
        "tokens",
        f"next: knnlm eval {store} {'--embedded' if embedded else '--text TEST'}",
    ]
    show(json, fields, lines)
