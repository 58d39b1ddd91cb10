"""Continuing a text with a kNN-LM: streaming, beside the base LM, or with the reason for every
token.

The loop itself is transformers'; here are its options, the prompt's rules and limits, and what
comes out. Knows nothing of how it is shown."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from knnlm.api import Loaded
from knnlm.api.explain import explained
from knnlm.errors import UsageError
from knnlm.evaluation.explanation import ExplainedToken
from knnlm.integrations.transformers.model import KNNLMForCausalLM
from knnlm.progress import log
from knnlm.text.tokenizer import CONTEXT_TOKENS_KEPT, decode_continuation, encode_prompt

Stream = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen: the most probable one, unless a temperature, top-p or top-k
    asks for a draw."""

    max_new_tokens: int = 64
    sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    beams: int = 1
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, right, choose in (
            ("max-new-tokens", self.max_new_tokens, self.max_new_tokens >= 1, "1 or more"),
            (
                "temperature",
                self.temperature,
                self.temperature is None or self.temperature > 0,
                "a number above 0",
            ),
            (
                "top-p",
                self.top_p,
                self.top_p is None or 0 < self.top_p <= 1,
                "a number above 0, at most 1",
            ),
            ("top-k", self.top_k, self.top_k is None or self.top_k >= 1, "1 or more"),
            ("beams", self.beams, self.beams >= 1, "1 or more"),
            (
                "repetition-penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0,
                "a number above 0",
            ),
            ("seed", self.seed, 0 <= self.seed < 1 << 63, "0 or more"),
        ):
            if not right:
                raise UsageError(f"{name} {value} is out of range: choose {choose}")

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.sample or any(x is not None for x in (self.temperature, self.top_p, self.top_k))

    def options(self, room: int) -> dict[str, Any]:
        """For generate(); at most `room` new tokens. P itself is drawn from: no top-k unless it is
        asked for."""
        found: dict[str, Any] = {
            "max_new_tokens": min(self.max_new_tokens, room),
            "do_sample": self.draws,
            "num_beams": self.beams,
            "repetition_penalty": self.repetition_penalty,
        }
        if self.draws:
            found |= {
                "temperature": self.temperature or 1.0,
                "top_p": self.top_p or 1.0,
                "top_k": self.top_k or 0,
            }
        return found


class Generated(NamedTuple):
    """A decode_continuation: its text and tokens, the base LM's where it was asked for, and the reasons
    for each token."""

    text: str
    tokens: tuple[int, ...]
    seconds: float
    base_text: str | None
    explained: tuple[ExplainedToken, ...]


def generate(
    loaded: Loaded,
    prompt: str,
    how: Sampling | None = None,
    *,
    compare: bool = False,
    explain: bool = False,
    stream: Stream | None = None,
) -> Generated:
    """Continue `prompt`; `stream` is called with the prompt and then with pieces of text as they
    come."""
    how = Sampling() if how is None else how
    model, tokenizer = loaded
    ids = encode_prompt(tokenizer, prompt)
    room = _room(model, len(ids), how.max_new_tokens)
    if stream is not None:
        stream(prompt)
    base = _continue(model, 0.0, tokenizer, ids, how, room, None) if compare else None
    began = time.monotonic()
    new = _continue(model, model.config.lam, tokenizer, ids, how, room, stream)
    seconds = time.monotonic() - began
    reasons = (
        explained(model, np.array([*ids, *new], np.int64), len(ids), tokenizer)
        if explain and new
        else ()
    )
    return Generated(
        decode_continuation(tokenizer, ids, new),
        tuple(new),
        seconds,
        None if base is None else decode_continuation(tokenizer, ids, base),
        reasons,
    )


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
    lam: float,
    tokenizer: Any,
    ids: list[int],
    how: Sampling,
    room: int,
    stream: Stream | None,
) -> list[int]:
    """New tokens. Of the model's own generation settings only its special tokens are kept."""
    own, alone = model.generation_config, model.at(lam)
    stop = own.eos_token_id
    pad = stop[0] if isinstance(stop, list) else stop
    alone.generation_config = transformers.GenerationConfig(
        bos_token_id=own.bos_token_id, eos_token_id=stop, pad_token_id=0 if pad is None else pad
    )
    streams = stream is not None and how.beams == 1
    streamer = _Streamer(tokenizer, ids, stream) if stream is not None and streams else None
    tokens = torch.tensor([ids], device=model.get_input_embeddings().weight.device)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(how.seed)
        found = alone.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            streamer=streamer,
            **how.options(room),
        )
    new = [int(t) for t in found[0, len(ids) :]]
    if stream is not None and not streams:
        stream(decode_continuation(tokenizer, ids, new))
    return new


class _Streamer(transformers.generation.BaseStreamer):  # type: ignore[misc]
    """Hands text to a function as soon as it is certain.

    Decoded from the prompt's last tokens on: alone, a token may lose its leading space or be half a
    letter."""

    def __init__(self, tokenizer: Any, prompt: list[int], stream: Stream) -> None:
        self.tokenizer, self.stream = tokenizer, stream
        self.ids = prompt[-CONTEXT_TOKENS_KEPT:]
        self.shown = len(decode_continuation(tokenizer, [], self.ids))
        self.prompt_came = False

    def put(self, value: torch.Tensor) -> None:
        """The prompt comes first, then a token at a time."""
        if self.prompt_came:
            self.ids += value.flatten().tolist()
            self._show(final=False)
        self.prompt_came = True

    def end(self) -> None:
        """Show what was held back."""
        self._show(final=True)

    def _show(self, final: bool) -> None:
        text = decode_continuation(self.tokenizer, [], self.ids)
        if len(text) > self.shown and (final or not text.endswith("\N{REPLACEMENT CHARACTER}")):
            self.stream(text[self.shown :])
            self.shown = len(text)
