"""knnlm train"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.options import Dataset, Json, Texts, UseEmbedded, show


def train(
    out: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    preset: Annotated[str, typer.Option("--preset", help="smoke, demo, laptop or paper.")],
    text: Texts = None,
    dataset: Dataset = None,
    embedded: UseEmbedded = False,
    valid: Annotated[
        list[Path] | None,
        typer.Option("--valid", help="Validation text; default: the text's own, or 5% held out."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed is another model.")] = 0,
    json: Json = False,
) -> None:
    """Train a tokenizer and a base LM from scratch; killed or interrupted, the same command goes
    on.

    Example: knnlm train --embedded --preset smoke --out model
    """
    from knnlm import api

    found = api.train(
        out,
        text or None,
        dataset=dataset,
        embedded=embedded,
        valid=valid or None,
        preset=preset,
        seed=seed,
    )
    show(
        json,
        found._asdict(),
        [
            f"{found.path}: {found.parameters:,} parameters, validation perplexity "
            f"{found.valid_ppl:.2f} "
            f"(step {found.best_step:,} of {found.steps:,}, {found.tokens_per_second:,.0f} "
            "tokens/s)"
        ],
    )
