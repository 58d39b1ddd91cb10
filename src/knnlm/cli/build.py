"""knnlm build"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knnlm import defaults
from knnlm.cli.groups import TextOptions
from knnlm.cli.options import Device, Json, numbers, show
from knnlm.errors import UsageError
from knnlm.files import short_path
from knnlm.progress import counted
from knnlm.ranges import check_dtype, check_precision

if TYPE_CHECKING:
    from knnlm.api import Datastore
    from knnlm.text import Text

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model folder, hub name or .gguf file.")
]
StoreFolder = Annotated[Path, typer.Option("--out", help="Folder for the datastore.")]
Keys = Annotated[
    str | None,
    typer.Option(
        "--keys",
        help="Which hidden states: att, ffn or att,ffn (default; ffn where att is not known).",
    ),
]
AttModule = Annotated[
    str | None,
    typer.Option("--att-module", help="In an unknown architecture: the module whose input is att."),
]
Window = Annotated[
    int | None,
    typer.Option(
        "--window", help="Tokens read at once; by default all that the model can, at most 1024."
    ),
]
Stride = Annotated[
    int | None, typer.Option("--stride", help="New tokens in each window; by default half of it.")
]
Logprobs = Annotated[
    bool, typer.Option("--logprobs", help="Also store log p_LM; runs the LM head.")
]
Dtype = Annotated[
    str, typer.Option("--dtype", help="How hidden states are stored: float16 or float32.")
]
Precision = Annotated[
    str,
    typer.Option("--precision", help="How the model computes: float32, bfloat16, float16 or auto."),
]
Adapter = Annotated[
    str | None, typer.Option("--adapter", help="PEFT adapter of the model: folder or hub name.")
]


def build(
    model: ModelName,
    path: StoreFolder,
    text: TextOptions,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="Percents of the documents for datastore, validation and test, as in 90,5,5. "
            "A hash of its name decides where a document goes, so small folders are divided "
            "unevenly. tune and eval then need no text; if the folder has moved, give them its "
            "new path with --text.",
        ),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(
            "--meta",
            metavar="NAME=VALUE",
            help="What to keep with every document, as in author=me (repeatable).",
        ),
    ] = None,
    keys: Keys = None,
    att_module: AttModule = None,
    window: Window = None,
    stride: Stride = None,
    logprobs: Logprobs = False,
    dtype: Dtype = "float16",
    device: Device = None,
    precision: Precision = "float32",
    adapter: Adapter = None,
    json: Json = False,
) -> None:
    """Store the hidden states that predicted each token of a text.

    These and the tokens that followed are the datastore. An interrupted build resumes with the same
    command.

    Example: knnlm build model --text docs/ --split 90,5,5 --out store
    """
    # mistakes are told before model libraries are imported
    named = _divided(text, split, meta)
    _check_options(keys, window, stride, dtype, precision)
    from knnlm.api import Datastore

    store = Datastore.build(
        model,
        named,
        path,
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
    _show(store, text, json)


def _check_options(
    keys: str | None, window: int | None, stride: int | None, dtype: str, precision: str
) -> None:
    from knnlm.hidden_states import checked_keys
    from knnlm.text import check_window

    if keys is not None:
        checked_keys(keys)
    if window is not None:
        check_window(window, window if stride is None else stride)
    check_dtype(dtype)
    check_precision(precision)


def _divided(text: TextOptions, split: str | None, meta: list[str] | None) -> "Text":
    """The text that is named; a folder where --split divides it or --meta says more of it."""
    from knnlm.text import Folder

    if split is None and not meta:
        return text.named()
    if not text.text:
        raise UsageError("--split and --meta are for files and folders: name them with --text")
    known: dict[str, str] = {}
    for given in meta or []:
        name, equals, value = given.partition("=")
        if not (name and equals):
            raise UsageError(f"--meta '{given}' has no value: write it like author=me")
        known[name] = value
    percents = numbers(split, "--split", example="90,5,5")
    return Folder([str(path) for path in text.text], split=percents, meta=known)


def _show(store: "Datastore", text: TextOptions, json: bool) -> None:
    entries, path = store.entries, shlex.quote(short_path(store.path))
    documents = entries.document_count
    fields = {
        "path": str(store.path),
        "entries": len(store),
        "words": entries.words,
        "documents": documents,
        "keys": list(store.keys),
        "window": entries.meta["window"],
        "stride": entries.meta["stride"],
    }
    following = f"next: knnlm tune {path}{text.flag_for('valid', entries)}"
    if len(store) >= defaults.MANY_ENTRIES:
        following += f", or knnlm index {path} first to search faster"
    lines = [
        f"{path}: {len(store):,} entries from {counted(documents, 'document')} "
        f"({entries.words:,} words), keys {', '.join(store.keys)}",
        following,
    ]
    show(json, fields, lines)
