"""knnlm eval"""

from typing import Annotated, Any

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
    show,
)


def evaluate(
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
        int | None, typer.Option("--k", help="Neighbors, instead of the tuned number.")
    ] = None,
    lam: Annotated[
        float | None, typer.Option("--lambda", help="λ instead of the tuned one.")
    ] = None,
    tau: Annotated[float | None, typer.Option("--tau", help="τ instead of the tuned one.")] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Report perplexities of a text with and without retrieval.

    Settings that are not given are those that tune found. With --component, a component is used
    instead of a search.

    Example: knnlm eval store --embedded
    """
    from knnlm.api import KNNLM

    model_of_store = KNNLM(
        store,
        component=component or "knn",
        key=key,
        metric=metric,
        index=index,
        exact=exact,
        score=checked_score(score),
        k=k,
        lam=lam,
        tau=tau,
        model=model,
        device=device,
    )
    _ = model_of_store.settings  # what is not tuned is said before a text is read
    result = model_of_store.evaluate(named_text(text, dataset, embedded))
    retrieval = result.settings.retrieval
    setting: dict[str, Any] = (
        {"component": component, "keys": list(model_of_store.component.keys)}
        if retrieval is None
        else retrieval.as_json()
    )
    show(json, {**setting, **result.as_json()}, [str(result)])
