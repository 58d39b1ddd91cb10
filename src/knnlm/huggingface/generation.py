"""Continuing a text with a kNN-LM: streaming, or beside the base LM.

The loop itself is transformers'; here are its options, the prompt's limits, and what comes out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

import torch
import transformers

from knnlm.argument_types import check_type
from knnlm.errors import UsageError
from knnlm.huggingface.model import KNNLMForCausalLM
from knnlm.huggingface.steps import Steps, TokenScores
from knnlm.progress import log
from knnlm.text import TextPieces, decode_continuation, encode_chat, encode_prompt

Stream = Callable[[str], None]
"""Called with pieces of text as they come."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen.

    The most probable one, unless `sample`, a temperature, top-p or top-k asks for a draw.

    Attributes:
        max_new_tokens: How many tokens to add, at most.
        sample: Whether tokens are drawn at random; from P itself, if nothing else is given.
        temperature: Divides log P before a token is drawn; below 1, likely tokens gain.
        top_p: Draw only from the most probable tokens whose probabilities sum to this.
        top_k: Draw only from this many of the most probable tokens.
        beams: Width of beam search; 1 is none.
        repetition_penalty: Above 1, tokens that have occurred become less likely; 1 is none.
        seed: Decides the draws.

    Raises:
        UsageError: A number is out of range.

    Example:
        >>> sampling = Sampling(temperature=0.8, top_p=0.95, seed=1)
        >>> sampling.draws
        True
        >>> KNNLM("store").generate("The with", sampling=sampling)    # doctest: +SKIP
    """

    max_new_tokens: int = 64
    sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    beams: int = 1
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Sampling).items():
            check_type(name, getattr(self, name), hint)
        above_zero = "a number above 0"
        for name, right, choices in (
            ("max_new_tokens", self.max_new_tokens >= 1, "1 or more"),
            ("temperature", self.temperature is None or self.temperature > 0, above_zero),
            ("top_p", self.top_p is None or 0 < self.top_p <= 1, f"{above_zero}, at most 1"),
            ("top_k", self.top_k is None or self.top_k >= 1, "1 or more"),
            ("beams", self.beams >= 1, "1 or more"),
            ("repetition_penalty", self.repetition_penalty > 0, above_zero),
            ("seed", 0 <= self.seed < 1 << 63, f"0 to {(1 << 63) - 1}"),
        ):
            if not right:
                raise UsageError(
                    f"`{name}` {getattr(self, name)} is out of range: choose {choices}"
                )

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random."""
        options = (self.temperature, self.top_p, self.top_k)
        return self.sample or any(option is not None for option in options)

    def options(self, room: int) -> dict[str, Any]:
        """Options of transformers' generate() for at most `room` new tokens.

        P itself is drawn from: no top-k unless it is asked for.

        Args:
            room: How many new tokens fit behind the prompt.

        Returns:
            Keyword arguments of generate().
        """
        options: dict[str, Any] = {
            "max_new_tokens": min(self.max_new_tokens, room),
            "do_sample": self.draws,
            "num_beams": self.beams,
            "repetition_penalty": self.repetition_penalty,
        }
        if self.draws:
            options |= {
                "temperature": self.temperature or 1.0,
                "top_p": self.top_p or 1.0,
                "top_k": self.top_k or 0,
            }
        return options


class Generated(NamedTuple):
    """A continuation: its text and tokens, those of the prompt, and the base LM's if asked for."""

    text: str
    tokens: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    seconds: float
    base_text: str | None
    scores: TokenScores | None
    """What each token got when it was chosen; None after a beam search, and where λ is 0."""
    searches: int | None
    """How many steps searched; None after a beam search."""


def generate(
    model: KNNLMForCausalLM,
    tokenizer: Any,
    prompt: str,
    sampling: Sampling | None = None,
    *,
    chat: bool = False,
    compare: bool = False,
    stream: Stream | None = None,
    reuse: int | None = None,
) -> Generated:
    """Continue a prompt, or answer it.

    Args:
        model: The kNN-LM.
        tokenizer: Its tokenizer.
        prompt: The text to continue, begun as a document of the datastore is.
        sampling: How tokens are chosen; greedily unless told otherwise.
        chat: Whether the prompt is a message, put into the model's chat template.
        compare: Whether the base LM continues it too, with the same seed.
        stream: Called with the prompt (not in a chat), and then with pieces of text as they come.
        reuse: While at least so many entries that follow the last neighbors go on as the text
            does, they vote and nothing is searched; None searches at every step.

    Raises:
        UsageError: If `reuse` is below 1, or there are beams or no search; if the prompt is not
            UTF-8, is longer than the model can read, or is empty and the model has no token to
            begin a text with; or if it has no chat template.
    """
    sampling = Sampling() if sampling is None else sampling
    steps = _steps(model, sampling, reuse)
    ids = encode_chat(tokenizer, prompt) if chat else encode_prompt(tokenizer, prompt)
    room = _room(model, len(ids), sampling.max_new_tokens)
    if stream is not None and not chat:
        stream(prompt)
    base = None
    if compare:
        new = _continue(model.with_lambda(0.0), model, tokenizer, ids, sampling, room, None)
        base = decode_continuation(tokenizer, ids, new)
    began = time.monotonic()
    same = model.following(steps)
    new = _continue(same, model, tokenizer, ids, sampling, room, stream)
    seconds = time.monotonic() - began
    text = decode_continuation(tokenizer, ids, new)
    scores = None if steps is None else steps.scores(new, model.config.tuned.lam)
    searches = None if steps is None else steps.searches
    return Generated(text, tuple(new), tuple(ids), seconds, base, scores, searches)


def _steps(model: KNNLMForCausalLM, sampling: Sampling, reuse: int | None) -> Steps | None:
    """Where the steps of one sequence are kept; None for beams, which change places."""
    if sampling.beams == 1:
        return Steps(model.component, model.entries, reuse)
    if reuse is not None:
        raise UsageError("`reuse` follows one sequence: leave it out, or leave out `beams`")
    return None


def _room(model: Any, prompt: int, wanted: int) -> int:
    """How many tokens still fit behind the prompt."""
    longest = model.config.max_position_embeddings
    if longest is None:
        return wanted
    if prompt > longest:
        raise UsageError(
            f"the prompt has {prompt:,} tokens but the model reads at most {longest:,}: shorten it"
        )
    room = int(longest) - prompt + 1  # the last token is not read
    if wanted > room:
        log.warning(f"only {room:,} new tokens fit behind this prompt")
    return min(wanted, room)


def _continue(
    model: KNNLMForCausalLM,
    original: KNNLMForCausalLM,
    tokenizer: Any,
    ids: list[int],
    sampling: Sampling,
    room: int,
    stream: Stream | None,
) -> list[int]:
    """New tokens. Of the original's generation settings only its special tokens are kept."""
    own = original.generation_config
    stop = own.eos_token_id
    pad = stop[0] if isinstance(stop, list) else stop
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=own.bos_token_id, eos_token_id=stop, pad_token_id=0 if pad is None else pad
    )
    streams = stream is not None and sampling.beams == 1
    streamer = _Streamer(tokenizer, ids, stream) if stream is not None and streams else None
    tokens = torch.tensor([ids], device=model.get_input_embeddings().weight.device)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(sampling.seed)
        output = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            streamer=streamer,
            **sampling.options(room),
        )
    new = [int(token) for token in output[0, len(ids) :]]
    if stream is not None and not streams:
        stream(decode_continuation(tokenizer, ids, new))
    return new


class _Streamer(transformers.generation.BaseStreamer):  # type: ignore[misc]
    """Hands text to a function as soon as it is certain."""

    def __init__(self, tokenizer: Any, prompt: list[int], stream: Stream) -> None:
        self.pieces, self.stream = TextPieces(tokenizer, prompt), stream
        self.prompt_came = False

    def put(self, value: torch.Tensor) -> None:
        """Take the prompt, which comes first, and then a token at a time."""
        if self.prompt_came:
            self._show(self.pieces.add(*value.flatten().tolist()))
        self.prompt_came = True

    def end(self) -> None:
        """Show what was held back."""
        self._show(self.pieces.end())

    def _show(self, piece: str) -> None:
        if piece:
            self.stream(piece)
