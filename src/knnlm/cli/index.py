"""knnlm index"""

from typing import Annotated

import typer

from knnlm import defaults
from knnlm.cli.options import Json, StorePath, show


def index(
    store: StorePath,
    key: Annotated[
        str | None, typer.Option("--key", help="Which hidden state: att or ffn.")
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="l2 or ip (inner product).")] = "l2",
    factory: Annotated[
        str | None,
        typer.Option("--factory", help="FAISS factory string; by default chosen by size."),
    ] = None,
    nprobe: Annotated[
        int, typer.Option("--nprobe", help="Lists visited by each search.")
    ] = defaults.NPROBE,
    recall_floor: Annotated[
        float, typer.Option("--recall-floor", help="Refuse an index below this recall.")
    ] = defaults.RECALL_FLOOR,
    json: Json = False,
) -> None:
    """Build a FAISS index and measure its recall.

    Recall is measured against exact search; an index below --recall-floor is not kept.

    Example: knnlm index store --key att --metric l2
    """
    from knnlm.similarity import checked_metric

    checked_metric(metric)  # before a model library is imported
    from knnlm.api import Datastore

    built = Datastore.open(store).build_index(
        key=key, metric=metric, factory=factory, nprobe=nprobe, recall_floor=recall_floor
    )
    m = built.manifest
    line = (
        f"{built.name}: {m['factory']}, nprobe {m['nprobe']}, {m['rows']:,} entries, "
        f"{m['bytes'] / 1e6:,.1f} MB, recall@{m['recall_k']} {m['recall']:.3f}"
    )
    show(json, {"name": built.name, **m}, [line])
