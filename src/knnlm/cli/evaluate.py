"""knnlm eval"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnlm.cli.options import (
    ComponentName,
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
)

if TYPE_CHECKING:
    from knnlm.evaluation.tuning import Evaluation


def evaluate(
    store: StorePath,
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    model: Model = None,
    component: ComponentName = None,
    key: Key = None,
    metric: Annotated[str | None, typer.Option("--metric", help="l2 or ip.")] = None,
    index: IndexName = None,
    exact: Exact = False,
    score: Annotated[
        str | None, typer.Option("--score", help="index (the index's own scores) or exact.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Neighbours, instead of the tuned number.")
    ] = None,
    lam: Annotated[
        float | None, typer.Option("--lambda", help="λ instead of the tuned one.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="τ instead of the tuned one.")
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Report perplexities of a text with and without retrieval, at the settings that tune found;
    with --component, without a search.

    Example: knnlm eval store --embedded --exact
    """
    from knnlm import api
    from knnlm.errors import unknown
    from knnlm.files import finite
    from knnlm.resolve import refuse_retrieval

    if score not in (None, "index", "exact"):
        raise unknown("score", score, ("index", "exact"))
    chosen = mask(index, exact)
    if component is not None:
        refuse_retrieval(
            "--temperature",
            key=key,
            metric=metric,
            mask=chosen,
            score=score,
            k=k,
            temperature=temperature,
        )
        found, e = api.evaluate_component(
            store,
            component,
            text or None,
            dataset=dataset,
            embedded=embedded,
            model=model,
            lam=lam,
            device=device,
        )
        about: dict[str, Any] = {"component": component, "keys": list(found.component.keys)}
        setting = f"component {component} on {' and '.join(found.component.keys)}, λ {e.lam:.3f}, τ {e.temperature:.4g}"
        names = (
            "with component",
            "component alone",
            f"(coverage {e.coverage:.1%}, helping {e.helping:.1%})",
        )
    else:
        tuned, e = api.evaluate(
            store,
            text or None,
            dataset=dataset,
            embedded=embedded,
            model=model,
            key=key,
            metric=metric,
            mask=chosen,
            score="exact" if score == "exact" else "index" if score == "index" else None,
            k=k,
            lam=lam,
            temperature=temperature,
            device=device,
        )
        what = tuned.retrieval
        about = what.as_json()
        setting = (
            f"{what.key} {what.metric}, {what.search_name} search, {what.score} scores, k {e.k}, "
            f"λ {e.lam:.3f}, "
            f"τ {e.temperature:.4g} ({e.temperature_units:.3g} × the neighbours' score spread)"
        )
        found_share = f"(coverage {e.coverage:.1%}, helping {e.helping:.1%}, recall {e.recall:.3f})"
        names = ("kNN-LM", "kNN alone", found_share)
    fields = {**about, **finite(e._asdict())}
    fields["lambda"] = fields.pop("lam")
    show(json, fields, [setting, *_lines(e, *names)])


def _lines(e: "Evaluation", mixed: str, alone: str, note: str) -> list[str]:
    from knnlm.report import formats

    interval = "no interval: too little text, or a token that is impossible"
    if e.ratio_ci95 is not None:
        low, high = e.ratio_ci95
        interval = f"95% interval {low:.4f} to {high:.4f} (resampling each {e.ratio_ci95_unit})"
    return [
        f"{e.tokens:,} tokens, {e.words:,} words",
        f"  {'base LM':<16} {formats.perplexity(e.base_ppl)} per token, "
        f"{formats.perplexity(e.base_word_ppl)} per word",
        f"  {mixed:<16} {formats.perplexity(e.interp_ppl)} per token, "
        f"{formats.perplexity(e.interp_word_ppl)} per word",
        f"  {'oracle':<16} {formats.perplexity(e.oracle_ppl)} per token",
        f"  {alone:<16} {formats.perplexity(e.component_ppl)} {note}",
        f"ratio {e.ratio:.4f}, {interval}",
    ]
