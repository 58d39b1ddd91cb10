"""knnlm distill"""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnlm.cli.groups import TextOptions
from knnlm.cli.options import Device, Json, Model, StorePath, show
from knnlm.defaults import (
    CLUSTERS_PER_TOKEN,
    COMPONENT_KIND,
    ENTRIES_PER_CLUSTER,
    MAX_CLUSTERS,
    MLP_WIDTHS,
)
from knnlm.errors import UsageError, unknown

if TYPE_CHECKING:
    from knnlm.api import Datastore
    from knnlm.training import Distilled

Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Its name; by default its kind, and the key if given. An older one is replaced.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help=f"clusters, head, mixture-of-softmaxes, or mlp (which reads att and ffn). By default "
        f"{COMPONENT_KIND}.",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--size",
        help=f"Clusters (the smallest of {CLUSTERS_PER_TOKEN} for each vocabulary entry, 1 for "
        f"{ENTRIES_PER_CLUSTER} entries, {MAX_CLUSTERS:,}), embeddings of a head for each "
        f"vocabulary entry (1), softmaxes (2), or inner width of an mlp ({MLP_WIDTHS} × width).",
    ),
]
SoftTargets = Annotated[
    float | None,
    typer.Option(
        "--soft-targets",
        help="Weight in the loss of the votes of neighbors from other documents, 0 to 1 (0).",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        help="Passes over the entries, at most. Clusters are trained further only if it is given.",
    ),
]
Mix = Annotated[
    str | None,
    typer.Option(
        "--mix",
        help="Mix these components of the datastore instead of making one: names separated "
        "by commas; knn stands for the neighbors.",
    ),
]


def distill(
    store: StorePath,
    text: TextOptions,
    model: Model = None,
    name: Name = None,
    kind: Kind = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Which hidden state it reads: att or ffn.")
    ] = None,
    size: Size = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="ip (inner product), or l2 (clusters, heads).")
    ] = None,
    soft_targets: SoftTargets = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate.")] = None,
    epochs: Epochs = None,
    mix: Mix = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of initial values and of the order of entries (0)."),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Make a small component that is used instead of a search.

    It is made from the entries and kept with the datastore. A validation text tunes it, and stops
    its training: the one given, or the one that the datastore was tuned on.

    Example: knnlm distill store --embedded
    """
    valid = text.optional()  # a mistake there is told before model libraries are imported
    from knnlm.training import KINDS

    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    from knnlm.api import Datastore

    opened = Datastore.open(store, model=model, device=device)
    if mix is not None:
        shape = {"kind": kind, "key": key, "size": size, "metric": metric}
        learning = {"soft_targets": soft_targets, "lr": lr, "epochs": epochs, "seed": seed}
        _refuse_training(**shape, **learning)
        made = opened.combine(mix.split(","), valid, name="mixture" if name is None else name)
    else:
        made = opened.distill(
            valid,
            name=name,
            kind=kind or COMPONENT_KIND,
            key=key,
            size=size,
            metric=metric,
            soft_targets=soft_targets or 0.0,
            lr=lr,
            epochs=epochs,
            seed=seed or 0,
        )
    test, quoted = text.flag_for("test", opened.entries), shlex.quote(str(store))
    lines = [*_lines(made, opened), f"next: knnlm eval {quoted}{test} --component {made.name}"]
    fields = made.settings.as_json()
    del fields["retrieval"]
    show(json, {**made.record, **fields, "name": made.name}, lines)


def _lines(made: "Distilled", store: "Datastore") -> list[str]:
    """What was made, and what it gives on the validation text; beside it the neighbors'."""
    from knnlm.components import Mixture
    from knnlm.evaluation import choose_settings

    settings, record = made.settings, made.record
    keys, kind = " and ".join(made.component.keys), record["kind"]
    tuned = choose_settings(store.entries)
    beside = ""
    if tuned is not None and tuned.text == settings.text:
        beside = f" (with the search: {tuned.interp_ppl:.2f})"
    count = made.component.multiplications
    cost = "" if count is None else f", {count:,} multiplications a token"
    parts = made.component.parts if isinstance(made.component, Mixture) else (made.component,)
    searches = any(part.retrieval is not None for part in parts)
    return [
        f"{settings}: {kind} on {keys}{cost}",
        f"{settings.validation}{'' if searches else ', without a search'}{beside}",
    ]


def _refuse_training(**given: Any) -> None:
    """Options of a new component where components that are there are mixed."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"`{name}` belongs to a new component: leave it out with `mix`")
