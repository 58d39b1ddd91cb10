"""knnlm generate"""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnlm.cli.options import (
    ComponentName,
    Device,
    Exact,
    IndexName,
    Json,
    Key,
    Model,
    StorePath,
    mask,
    show,
)
from knnlm.errors import UsageError

if TYPE_CHECKING:
    from knnlm.integrations.transformers.generation import Generated


def generate(
    store: StorePath,
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The text to continue; - reads it from stdin.")
    ],
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", help="How many tokens to add.")
    ] = 64,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw tokens, instead of the most probable.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Draw, at this temperature of P.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Draw from this share of the probability.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from this many tokens.")
    ] = None,
    beams: Annotated[int, typer.Option("--beams", help="Beam search instead.")] = 1,
    repetition_penalty: Annotated[
        float, typer.Option("--repetition-penalty", help="Above 1: fewer repeats.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Of what is drawn.")] = 0,
    lam: Annotated[
        float | None, typer.Option("--lambda", help="λ instead of the tuned one.")
    ] = None,
    temperature_knn: Annotated[
        float | None,
        typer.Option("--temperature-knn", help="τ of the neighbours instead of the tuned one."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Neighbours, instead of the tuned number.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="The base LM beside it, with the same seed.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each token with what was retrieved for it.")
    ] = False,
    model: Model = None,
    component: ComponentName = None,
    key: Key = None,
    metric: Annotated[str | None, typer.Option("--metric", help="l2 or ip.")] = None,
    index: IndexName = None,
    exact: Exact = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Continue a text with the store's model and neighbours; the text streams to stdout as it
    comes.

    Example: knnlm generate store "The with statement" --compare
    """
    from knnlm import api
    from knnlm.integrations.transformers import generation

    how = generation.Sampling(
        max_new_tokens=max_new_tokens,
        sample=sample,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        beams=beams,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    text = sys.stdin.read() if prompt == "-" else prompt
    if prompt == "-" and not text:
        raise UsageError("nothing came from stdin: pipe the prompt in, or give it as an argument")
    loaded = api.load(
        store,
        model=model,
        component=component,
        key=key,
        metric=metric,
        mask=mask(index, exact),
        k=k,
        lam=lam,
        temperature=temperature_knn,
        device=device,
    )
    streams = not json and not compare
    found = generation.generate(
        loaded, text, how, compare=compare, explain=explain, stream=_write if streams else None
    )
    if streams:
        _write("\n")
    show(json, _fields(text, found, loaded, how), _lines(text, found, loaded.model.config))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _fields(prompt: str, found: "Generated", loaded: Any, how: Any) -> dict[str, Any]:
    from knnlm.files import finite

    config = loaded.model.config
    return {
        "prompt": prompt,
        "text": found.text,
        "base_text": found.base_text,
        "new_tokens": len(found.tokens),
        "tokens_per_second": round(len(found.tokens) / max(found.seconds, 1e-9), 2),
        **({"component": config.component} if config.component else config.retrieval.as_json()),
        "lambda": config.lam,
        "temperature_knn": config.tau,
        "sampling": asdict(how),
        "explained": [
            finite({**t._asdict(), "neighbors": [n._asdict() for n in t.neighbors]}) for t in found.explained
        ],
    }


def _lines(prompt: str, found: "Generated", config: Any) -> list[str]:
    from knnlm.report import explained

    lines: list[str] = []
    if found.base_text is not None:
        lines += explained.side_by_side(prompt, found.base_text, found.text, config.component)
    if found.explained:
        lines += explained.lines(found.explained, config.lam, config.component)
    return lines
