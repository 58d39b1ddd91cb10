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
    recall: Annotated[
        float | None,
        typer.Option(
            "--recall",
            help=f"Search as hard as this recall@1024 takes; {defaults.RECALL} by default. "
            "With --nprobe: refuse an index below it.",
        ),
    ] = None,
    factory: Annotated[
        str | None,
        typer.Option(
            "--factory",
            help='FAISS factory string, or "small" for half the memory and slower searches; '
            "by default chosen by size.",
        ),
    ] = None,
    nprobe: Annotated[
        int | None,
        typer.Option(
            "--nprobe",
            help=f"Lists visited by each search; {defaults.NPROBE} if only a FAISS factory string "
            "is given.",
        ),
    ] = None,
    refine: Annotated[
        int | None,
        typer.Option(
            "--refine",
            help="Candidates for each neighbor that are scored again from the stored states.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Build a FAISS index and measure its recall.

    Recall is measured against exact search. The default index is searched
    as hard as a recall of 0.95 takes, and its neighbors are scored from the
    stored states. --factory builds any FAISS index as it is.

    Example: knnlm index store --key att --metric l2
    """
    from knnlm.similarity import checked_metric

    checked_metric(metric)  # before a model library is imported
    from knnlm.api import Datastore

    built = Datastore.open(store).build_index(
        key=key,
        metric=metric,
        factory=factory,
        nprobe=nprobe,
        refine=refine,
        recall=recall,
    )
    m = built.manifest
    line = (
        f"{built.name}: {m['factory']}, nprobe {m['nprobe']}, refine {m['refine']}, "
        f"{m['rows']:,} entries, "
        f"{m['bytes'] / 1e6:,.1f} MB, recall@{m['recall_k']} {m['recall']:.3f}"
    )
    show(json, {"name": built.name, **m}, [line])
