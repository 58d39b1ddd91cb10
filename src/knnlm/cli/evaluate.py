"""knnlm eval"""

from dataclasses import asdict
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
    show,
)  # fmt: skip


def evaluate(
    store: StorePath,
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    model: Model = None,
    key: Key = None,
    metric: Annotated[str | None, typer.Option("--metric", help="l2 or ip.")] = None,
    index: IndexName = None,
    exact: Exact = False,
    score: Annotated[str | None, typer.Option("--score", help="search (the index's own scores) or real.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Neighbours, instead of the tuned number.")] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="λ instead of the tuned one.")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="τ instead of the tuned one.")] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Report perplexities of a text with and without retrieval, at the settings that tune found.

    Example: knnlm eval store --embedded --exact
    """
    from knnlm import api
    from knnlm.errors import unknown
    from knnlm.files import finite
    from knnlm.report import formats

    if score not in (None, "search", "real"):
        raise unknown("score", score, ("search", "real"))
    tuned, e = api.evaluate(
        store, text or None, dataset=dataset, embedded=embedded, model=model, key=key, metric=metric,
        mask=mask(index, exact), score="real" if score == "real" else "search" if score == "search" else None, k=k,
        lam=lam, temperature=temperature, device=device, progress=True,
    )  # fmt: skip
    what = tuned.retrieval
    fields = {**asdict(what), **finite(e._asdict())}
    fields["lambda"] = fields.pop("lam")
    interval = "no interval: too little text, or a token that is impossible"
    if e.ratio_ci95 is not None:
        low, high = e.ratio_ci95
        interval = f"95% interval {low:.4f} to {high:.4f} (resampling each {e.ratio_ci95_unit})"
    lines = [
        f"{what.key} {what.metric}, {what.mask} mask, {what.score} scores, k {e.k}, λ {e.lam:.3f}, "
        f"τ {e.temperature:.4g} ({e.temperature_units:.3g} × the neighbours' score spread)",
        f"{e.tokens:,} tokens, {e.words:,} words",
        f"  base LM        {formats.perplexity(e.base_ppl)} per token, {formats.perplexity(e.base_word_ppl)} per word",
        f"  kNN-LM         {formats.perplexity(e.interp_ppl)} per token, "
        f"{formats.perplexity(e.interp_word_ppl)} per word",
        f"  oracle         {formats.perplexity(e.oracle_ppl)} per token",
        f"  kNN alone      {formats.perplexity(e.component_ppl)} (coverage {e.coverage:.1%}, helping {e.helping:.1%}, "
        f"recall {e.recall:.3f})",
        f"ratio {e.ratio:.4f}, {interval}",
    ]
    show(json, fields, lines)
