"""knnlm build"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.options import Dataset, Device, Json, Texts, UseEmbedded, named_text, show


def build(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model folder, hub name or .gguf file.")
    ],
    path: Annotated[Path, typer.Option("--out", help="Folder for the datastore.")],
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys",
            help="Which hidden states: att, ffn or att,ffn (default; ffn where att is not known).",
        ),
    ] = None,
    att_module: Annotated[
        str | None,
        typer.Option(
            "--att-module", help="Of an unknown architecture: the module whose input is att."
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
        str, typer.Option("--dtype", help="How hidden states are stored: float16 or float32.")
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
    """Store, for every token of a text, the hidden states that predicted it: the datastore.

    Resumes after a kill. Example: knnlm build model --embedded --out store
    """
    from knnlm.api import Datastore

    store = Datastore.build(
        model,
        named_text(text, dataset, embedded),
        path,
        keys=None if keys is None else keys.split(","),
        att_module=att_module,
        window=window,
        stride=stride,
        logprobs=logprobs,
        dtype=dtype,
        device=device,
        precision=precision,
        adapter=adapter,
    )
    entries = store.entries
    documents = entries.table.manifest["summary"]["documents"]
    fields = {
        "path": str(store.path),
        "entries": len(store),
        "words": entries.words,
        "documents": documents,
        "keys": list(store.keys),
        "window": entries.meta["window"],
        "stride": entries.meta["stride"],
    }
    held_out = "--embedded" if embedded else "--text VALID"
    lines = [
        f"{store.path}: {len(store):,} entries from {documents:,} documents "
        f"({entries.words:,} words), keys {', '.join(store.keys)}",
        f"next: knnlm tune {store.path} {held_out}, or knnlm index {store.path} first to search "
        "faster",
    ]
    show(json, fields, lines)
