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
    Metric,
    Model,
    StorePath,
    show,
)
from knnlm.errors import UsageError

if TYPE_CHECKING:
    from knnlm.api import Explanation, Generation


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
    retrieval_temperature: Annotated[
        float | None,
        typer.Option("--temperature-knn", help="τ of the neighbors instead of the tuned one."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Neighbors, instead of the tuned number.")
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
    metric: Metric = None,
    index: IndexName = None,
    exact: Exact = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Continue a text with the datastore's model and neighbors; it streams to stdout as it comes.

    Example: knnlm generate store "The with statement" --compare
    """
    from knnlm.api import KNNLM
    from knnlm.huggingface.generation import Sampling

    sampling = Sampling(
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
    model_of_store = KNNLM(
        store,
        component=component or "knn",
        key=key,
        metric=metric,
        index=index,
        exact=exact,
        k=k,
        lam=lam,
        retrieval_temperature=retrieval_temperature,
        model=model,
        device=device,
    )
    streams = not json and not compare
    generation = model_of_store.generate(
        text, sampling=sampling, compare=compare, stream=_write if streams else None
    )
    if streams:
        _write("\n")
    explanation = generation.explain() if explain else None
    show(json, _fields(generation, explanation, sampling), _lines(generation, explanation))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _fields(
    generation: "Generation", explanation: "Explanation | None", sampling: Any
) -> dict[str, Any]:
    settings, new = generation.settings, generation.generated
    retrieval = settings.retrieval
    return {
        "prompt": generation.prompt,
        "text": generation.text,
        "base_text": generation.base_text,
        "new_tokens": len(generation.tokens),
        "tokens_per_second": round(len(new.tokens) / max(new.seconds, 1e-9), 2),
        **({"component": settings.component} if retrieval is None else retrieval.as_json()),
        "lambda": settings.lam,
        "temperature_knn": settings.temperature,
        "sampling": asdict(sampling),
        "explained": [] if explanation is None else explanation.as_json(),
    }


def _lines(generation: "Generation", explanation: "Explanation | None") -> list[str]:
    from knnlm.report.explained import side_by_side

    lines: list[str] = []
    settings = generation.settings
    if generation.base_text is not None:
        name = None if settings.retrieval is not None else settings.component
        lines += side_by_side(generation.prompt, generation.base_text, generation.text, name)
    if explanation is not None and len(explanation):
        lines.append(str(explanation))
    return lines
