"""knnlm generate"""

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnlm.cli.groups import ModelOptions, SettingOptions
from knnlm.cli.options import Json, StorePath, show
from knnlm.errors import UsageError
from knnlm.formats import printable

if TYPE_CHECKING:
    from knnlm.api import KNNLM, Explanation, Generation

Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The text to continue; - reads it from stdin.")
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Also show what the base LM writes, with the same seed.")
]
Chat = Annotated[
    bool, typer.Option("--chat", help="Answer PROMPT as a message, with the chat template.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show what was retrieved for each token.")]
Reuse = Annotated[
    int | None,
    typer.Option(
        "--reuse",
        metavar="M",
        help="Search only where fewer than M of the entries that follow the last neighbors go on "
        "as the text does; else those vote.",
    ),
]


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen: the fields of `Sampling`."""

    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", help="How many tokens to add.")
    ] = 64
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample, instead of taking the most probable tokens.")
    ] = False
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Sample at this temperature of P.")
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="Sample from the likeliest tokens with this share of P."),
    ] = None
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Sample from this many of the likeliest tokens.")
    ] = None
    beams: Annotated[int, typer.Option("--beams", help="Width of a beam search; 1 means none.")] = 1
    repetition_penalty: Annotated[
        float, typer.Option("--repetition-penalty", help="Above 1, tokens are repeated less.")
    ] = 1.0
    seed: Annotated[int, typer.Option("--seed", help="Seed for sampling.")] = 0


def generate(
    store: StorePath,
    prompt: Prompt,
    sampling: SamplingOptions,
    settings: SettingOptions,
    model: ModelOptions,
    chat: Chat = False,
    compare: Compare = False,
    explain: Explain = False,
    reuse: Reuse = None,
    json: Json = False,
) -> None:
    """Continue a text with the datastore's model and neighbors.

    The new text streams to stdout as it comes. Special tokens
    that are spelled out in PROMPT are read as plain text.

    Example: knnlm generate store "The with statement" --compare
    """
    knnlm = model.open(store, settings)
    from knnlm.huggingface import Sampling

    chosen = Sampling(**asdict(sampling))
    text = _read_stdin() if prompt == "-" else prompt
    _continue(
        knnlm, text, chosen, chat=chat, compare=compare, explain=explain, reuse=reuse, json=json
    )


def _continue(
    model: "KNNLM",
    prompt: str,
    sampling: Any,
    *,
    chat: bool,
    compare: bool,
    explain: bool,
    reuse: int | None,
    json: bool,
) -> None:
    """Generate and show; what streams is not printed again."""
    streams = not json and not compare
    generation = model.generate(
        prompt,
        sampling=sampling,
        chat=chat,
        compare=compare,
        stream=_write if streams else None,
        reuse=reuse,
    )
    if streams:
        _write("\n")
    explanation = generation.explain() if explain else None
    fields = {**_fields(generation, explanation, sampling), "reuse": reuse}
    show(json, fields, _lines(generation, explanation))


def _read_stdin() -> str:
    text = sys.stdin.read()
    if not text:
        raise UsageError("nothing came from stdin: pipe the prompt in, or give it as an argument")
    return text


def _write(text: str) -> None:
    """Print what streams: as it is into a file or a pipe, without control characters on a
    terminal."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _fields(
    generation: "Generation", explanation: "Explanation | None", sampling: Any
) -> dict[str, Any]:
    settings, new = generation.settings, generation.generated
    retrieval = settings.retrieval
    return {
        "prompt": generation.prompt,
        "chat": generation.chat,
        "text": generation.text,
        "base_text": generation.base_text,
        "new_tokens": len(generation.tokens),
        "tokens_per_second": round(len(new.tokens) / max(new.seconds, 1e-9), 2),
        **({"component": settings.component} if retrieval is None else retrieval.as_json()),
        "lambda": settings.lam,
        "temperature": settings.tau,
        "sampling": asdict(sampling),
        "searches": new.searches,
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
