"""knnlm build"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.options import Dataset, Device, Json, Texts, UseEmbedded, show


def build(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model folder, hub name or .gguf file.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the store.")],
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys", help="Which states: att, ffn or att,ffn (default; ffn if att is not known)."
        ),
    ] = None,
    att_module: Annotated[
        str | None,
        typer.Option(
            "--att-module", help="Of an unknown architecture: the module whose input att is."
        ),
    ] = None,
    window: Annotated[int | None, typer.Option("--window", help="Tokens read at once.")] = None,
    stride: Annotated[
        int | None, typer.Option("--stride", help="New tokens in each window; default half.")
    ] = None,
    logprobs: Annotated[
        bool, typer.Option("--logprobs", help="Also store log p_LM; runs the LM head.")
    ] = False,
    dtype: Annotated[
        str, typer.Option("--dtype", help="How states are stored: float16 or float32.")
    ] = "float16",
    device: Device = None,
    precision: Annotated[
        str,
        typer.Option(
            "--precision", help="How the model computes: float32, bfloat16, float16 or auto."
        ),
    ] = "float32",
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="PEFT adapter of the model: folder or hub name.")
    ] = None,
    json: Json = False,
) -> None:
    """Store, for every token of a text, the state that predicted it: the datastore. Resumes after a
    kill.

    Example: knnlm build model --embedded --out store
    """
    from knnlm import api

    store = api.build(
        model,
        out,
        text or None,
        dataset=dataset,
        embedded=embedded,
        keys=keys,
        att_module=att_module,
        window=window,
        stride=stride,
        logprobs=logprobs,
        dtype=dtype,
        device=device,
        precision=precision,
        adapter=adapter,
    )
    documents = store.table.manifest["summary"]["documents"]
    fields = {
        "path": str(store.path),
        "rows": store.count,
        "words": store.words,
        "documents": documents,
        "keys": list(store.keys),
        "window": store.meta["window"],
        "stride": store.meta["stride"],
    }
    held_out = "--embedded" if embedded else "--text VALID"
    lines = [
        f"{store.path}: {store.count:,} rows from {documents:,} documents ({store.words:,} words), "
        f"keys {', '.join(store.keys)}",
        f"next: knnlm tune {store.path} {held_out}, or knnlm index {store.path} first to search "
        "faster",
    ]
    show(json, fields, lines)
