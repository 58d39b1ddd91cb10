"""knnlm distill"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knnlm.cli.options import Dataset, Device, Json, Model, StorePath, Texts, UseEmbedded, show
from knnlm.training.defaults import (
    CLUSTERS_PER_TOKEN,
    ENTRIES_PER_CLUSTER,
    KIND,
    MAX_CLUSTERS,
    MLP_WIDTHS,
)

if TYPE_CHECKING:
    from knnlm.training.distillation import Distilled

Name = Annotated[
    str | None,
    typer.Option(
        "--name", help="What to call it (its kind, and the key if given); an older one is replaced."
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--size",
        help=f"Clusters (the least of {CLUSTERS_PER_TOKEN} a word, 1 for {ENTRIES_PER_CLUSTER} "
        f"rows, {MAX_CLUSTERS:,}), embeddings a word (1), softmaxes (2), or inner width of a "
        f"network ({MLP_WIDTHS} × width).",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        help="Passes over the store, at most. Clusters are learned further only if this is given.",
    ),
]
Of = Annotated[
    str | None,
    typer.Option(
        "--of",
        help="Nothing new: mix these components of the store (names with commas between them).",
    ),
]


def distill(
    store: StorePath,
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    model: Model = None,
    name: Name = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help=f"clusters, embeddings, softmaxes, or network (which reads att and ffn). By default {KIND}.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Which states it reads: att or ffn.")
    ] = None,
    size: Size = None,
    metric: Annotated[str | None, typer.Option("--metric", help="ip, or l2 (clusters).")] = None,
    taught: Annotated[
        float | None,
        typer.Option(
            "--taught",
            help="Share of the loss that neighbours in other documents teach, 0 to 1 (0).",
        ),
    ] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate.")] = None,
    epochs: Epochs = None,
    of: Of = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of where it begins and of the order of rows (0).")
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Make a small component of the store's rows and keep it beside the store, to use in the place
    of the search.

    It is mixed, and stopped if it is learned, by a validation text: the one given, or the one that
    the store was tuned on.

    Example: knnlm distill store --embedded
    """
    from knnlm import api
    from knnlm.resolve import refuse_learning, the_store

    if of is not None:
        refuse_learning(
            kind=kind,
            key=key,
            size=size,
            metric=metric,
            taught=taught,
            lr=lr,
            epochs=epochs,
            seed=seed,
        )
        found = api.combine(
            store,
            of.split(","),
            text or None,
            dataset=dataset,
            embedded=embedded,
            model=model,
            name="together" if name is None else name,
            device=device,
        )
    else:
        found = api.distill(
            store,
            text or None,
            dataset=dataset,
            embedded=embedded,
            model=model,
            name=name,
            kind=kind or KIND,
            key=key,
            size=size,
            metric=metric,
            taught=taught or 0.0,
            lr=lr,
            epochs=epochs,
            seed=seed or 0,
            device=device,
        )
    own = (
        text is None and dataset is None and the_store(store).meta["text"].get("kind") == "embedded"
    )
    test = "--embedded" if embedded or own else "--text TEST"
    lines = [*_lines(found, store), f"next: knnlm eval {store} {test} --component {found.name}"]
    show(
        json,
        {"name": found.name, "multiplications": found.component.multiplications, **found.about},
        lines,
    )


def _lines(found: "Distilled", store: Path) -> list[str]:
    """What was made, and what it gives on the validation text; beside it the search, if that was
    tuned on the same."""
    from knnlm.components.saving import kind_of
    from knnlm.evaluation.settings import choose_settings
    from knnlm.resolve import the_store
    from knnlm.training.distillation import tuned_on

    about, made = found.about, found.component
    states, kind = " and ".join(made.keys), kind_of(made)
    tuned = choose_settings(the_store(store))
    beside = ""
    if tuned is not None and tuned_on(about, tuned.tokens, tuned.base_ppl):
        beside = f" (with the search: {tuned.interp_ppl:.2f})"
    return [
        f"{found.name if found.name == kind else f'{found.name}: {kind}'} on {states}, "
        f"{made.multiplications:,} "
        f"multiplications a token; λ {found.lam:.3f}, τ {made.tau:.4g}",
        f"validation perplexity {about['base_ppl']:.2f} → {about['interp_ppl']:.2f} on "
        f"{about['tokens']:,} tokens, "
        f"without a search{beside}",
    ]
