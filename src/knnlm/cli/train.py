"""knnlm train"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.groups import TextOptions
from knnlm.cli.options import Json, show


def train(
    path: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    preset: Annotated[str, typer.Option("--preset", help="smoke, demo, laptop or paper.")],
    text: TextOptions,
    valid: Annotated[
        list[Path] | None,
        typer.Option(
            "--valid",
            metavar="PATH",
            help="Validation text (repeatable); by default the text's own, or 5% held out.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed; another one gives another model.")] = 0,
    json: Json = False,
) -> None:
    """Train a tokenizer and a base LM from scratch.

    An interrupted run resumes with the same command.

    Example: knnlm train --embedded --preset smoke --out model
    """
    from knnlm import api

    trained = api.train(text.named(), path, valid=valid or None, preset=preset, seed=seed)
    line = (
        f"{trained.path}: {trained.parameters:,} parameters, validation perplexity "
        f"{trained.valid_ppl:.2f} (step {trained.best_step:,} of {trained.steps:,}, "
        f"{trained.tokens_per_second:,.0f} tokens/s)"
    )
    show(json, trained._asdict(), [line])
