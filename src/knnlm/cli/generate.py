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
    from knnlm.api import KNNLM, Explanation, Generation

Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The text to continue; - reads it from stdin.")
]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", help="How many tokens to add.")]
Sample = Annotated[
    bool, typer.Option("--sample", help="Draw tokens, instead of the most probable.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", help="Draw, at this temperature of P.")
]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Draw from this share of the probability.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw from this many tokens.")]
Beams = Annotated[int, typer.Option("--beams", help="Beams of a beam search; 1 is none.")]
RepetitionPenalty = Annotated[
    float, typer.Option("--repetition-penalty", help="Above 1: fewer repeats.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draws.")]
Lambda = Annotated[float | None, typer.Option("--lambda", help="λ instead of the tuned one.")]
Tau = Annotated[
    float | None,
    typer.Option("--tau", help="τ instead of the tuned one."),
]
K = Annotated[int | None, typer.Option("--k", help="Neighbors, instead of the tuned number.")]
Compare = Annotated[
    bool, typer.Option("--compare", help="Show the base LM beside it, with the same seed.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show what was retrieved for each token.")]


def generate(
    store: StorePath,
    prompt: Prompt,
    max_new_tokens: MaxNewTokens = 64,
    sample: Sample = False,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    beams: Beams = 1,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = 0,
    lam: Lambda = None,
    tau: Tau = None,
    k: K = None,
    compare: Compare = False,
    explain: Explain = False,
    model: Model = None,
    component: ComponentName = None,
    key: Key = None,
    metric: Metric = None,
    index: IndexName = None,
    exact: Exact = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Continue a text with the datastore's model and neighbors.

    The new text streams to stdout as it comes.

    Example: knnlm generate store "The with statement" --compare
    """
    from knnlm.api import KNNLM
    from knnlm.huggingface import Sampling

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
    text = _read_stdin() if prompt == "-" else prompt
    model_of_store = KNNLM(
        store,
        component=component or "knn",
        key=key,
        metric=metric,
        index=index,
        exact=exact,
        k=k,
        lam=lam,
        tau=tau,
        model=model,
        device=device,
    )
    _continue(model_of_store, text, sampling, compare=compare, explain=explain, json=json)


def _continue(
    model: "KNNLM", prompt: str, sampling: Any, *, compare: bool, explain: bool, json: bool
) -> None:
    """Generate and show; what streams is not printed again."""
    streams = not json and not compare
    generation = model.generate(
        prompt, sampling=sampling, compare=compare, stream=_write if streams else None
    )
    if streams:
        _write("\n")
    explanation = generation.explain() if explain else None
    show(json, _fields(generation, explanation, sampling), _lines(generation, explanation))


def _read_stdin() -> str:
    text = sys.stdin.read()
    if not text:
        raise UsageError("nothing came from stdin: pipe the prompt in, or give it as an argument")
    return text


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
        "temperature": settings.tau,
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
