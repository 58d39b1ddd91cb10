"""Requests of the OpenAI API → texts for the engine → answers, whole or as a stream."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from knnlm.errors import UsageError
from knnlm.files import finite
from knnlm.integrations.server.continuation import Choosing, Continuation, NewText, TokenLogs
from knnlm.integrations.server.engine import Engine
from knnlm.integrations.server.logprobs import CompletionLogprobs, Prompt
from knnlm.integrations.server.predictor import Mixing, Predictor
from knnlm.integrations.server.schemas import CompletionRequest, GeneratingRequest, Settings
from knnlm.integrations.server.scoring import prompt_logs
from knnlm.integrations.server.sources import described
from knnlm.text import decode_continuation, without_half_a_letter


class NotFound(UsageError):
    """There is no such model."""


@dataclass(frozen=True)
class Served:
    """What is served, and under which name.

    Args:
        name: The model's name; NAME:base is the base LM alone.
        predictor: The model.
        engine: Runs it.
        ends: Tokens at which a text ends.
    """

    name: str
    predictor: Predictor
    engine: Engine
    ends: frozenset[int]

    @property
    def names(self) -> tuple[str, str]:
        """The kNN-LM's and the base LM's."""
        return self.name, f"{self.name}:base"

    def mixing(self, model: str | None, knn: Settings) -> Mixing:
        """What a request mixes.

        Raises:
            NotFound: There is no such model.
            UsageError: A setting is unknown or out of range.
        """
        if model is not None and model not in self.names:
            raise NotFound(f"there is no model {model!r} here: use {' or '.join(self.names)}")
        if model == self.names[1]:
            if knn.model_fields_set:
                raise UsageError(
                    f"{model} is the base LM alone: leave `knn` out, or use {self.name}"
                )
            return self.predictor.mixing(lam=0.0)
        return self.predictor.mixing(knn.lam, knn.tau, knn.k, knn.component)

    def room(self, prompt: int, wanted: int | None, default: int) -> int:
        """How many tokens may be added to a prompt.

        Raises:
            UsageError: The prompt, or what is asked for, does not fit into the model.
        """
        longest = self.predictor.longest
        if longest is None:
            return default if wanted is None else wanted
        if prompt > longest:
            raise UsageError(
                f"the prompt has {prompt:,} tokens but the model reads at most {longest:,}: "
                "shorten it"
            )
        room = longest - prompt + 1  # the last token is not read
        if wanted is None:
            return min(default, room)
        if wanted > room:
            raise UsageError(
                f"only {room:,} tokens fit behind this prompt: ask for fewer than {wanted:,}"
            )
        return wanted


def prompts_of(request: CompletionRequest, predictor: Predictor) -> list[Prompt]:
    """The prompts of a request, which may be texts or tokens.

    Raises:
        UsageError: A token is outside the vocabulary, or a text is not valid.
    """
    given: Any = request.prompt
    if isinstance(given, str) or isinstance(given[0], int):
        given = [given]
    echoed = request.echo and request.max_tokens > 0
    return [_prompt(each, predictor, whole=not echoed) for each in given]


def _prompt(given: str | list[int], predictor: Predictor, whole: bool) -> Prompt:
    if isinstance(given, str):
        return Prompt(predictor.encode(given), given)
    size = predictor.lm.vocab_size
    if max(given) >= size:
        raise UsageError(f"token {max(given)} is outside the vocabulary of {size} entries")
    text = decode_continuation(predictor.tokenizer, [], given, special=True)
    return Prompt(list(given), text if whole else without_half_a_letter(text), whole)


def choosing_of(
    request: GeneratingRequest, prompt: int, choice: int, predictor: Predictor
) -> Choosing:
    """How the tokens of one choice are chosen; all choices of a request draw differently."""
    bias = []
    for token, value in (request.logit_bias or {}).items():
        number = token.isascii() and token.isdecimal() and len(token) < 10
        if not (number and int(token) < predictor.lm.vocab_size):
            raise UsageError(f"logit_bias names {token[:20]!r}, which is no token of this model")
        bias.append((int(token), value))
    return Choosing(
        temperature=request.temperature,
        top_p=request.top_p,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias=tuple(bias),
        seed=None if request.seed is None else _derived(request.seed, prompt, choice),
    )


def _derived(seed: int, prompt: int, choice: int) -> int:
    """A seed for each choice: neighboring seeds have none in common."""
    mixed = np.random.SeedSequence([seed % (1 << 64), prompt, choice])
    return int(mixed.generate_state(1, np.uint64)[0] >> 1)


class Event(NamedTuple):
    """Something new in one choice."""

    choice: int
    new: NewText | Exception


class Running:
    """The texts of one request while they are continued; they end when this is closed."""

    def __init__(self, engine: Engine, stream: bool) -> None:
        self._engine, self._stream = engine, stream
        self._queue = asyncio.Queue[Event]()
        self._loop, self.texts = asyncio.get_running_loop(), list[Continuation]()

    def add(self, **fields: Any) -> None:
        """A further text; it begins with `begin`."""
        choice = len(self.texts)

        held: list[Event] = []

        def emit(new: NewText | Exception) -> None:
            if isinstance(new, Exception):  # perhaps from another thread, and nothing else counts
                events = [Event(choice, new)]
            else:
                held.append(Event(choice, new))
                if not (self._stream or new.finish is not None):
                    return  # an answer that comes whole wakes the loop once
                events, held[:] = list(held), []
            try:
                self._loop.call_soon_threadsafe(self._put, events)
            except RuntimeError:  # the loop has closed, and with it the connection
                self.texts[choice].cancel()

        self.texts.append(Continuation(emit=emit, **fields))

    def _put(self, events: list[Event]) -> None:
        for event in events:
            self._queue.put_nowait(event)

    def begin(self) -> None:
        """Hand all texts to the engine.

        Raises:
            TooBusy: There is no room for them.
            ShuttingDown: The engine is closing.
        """
        self._engine.submit(self.texts)

    async def events(self) -> AsyncIterator[Event]:
        """What happens, until all texts have ended.

        Raises:
            Exception: What went wrong in one of them.
        """
        left = len(self.texts)
        while left:
            event = await self._queue.get()
            if isinstance(event.new, Exception):
                raise event.new
            left -= event.new.finish is not None
            yield event

    def close(self) -> None:
        """Give up what has not ended."""
        for text in self.texts:
            text.cancel()


def identity(kind: str, name: str) -> dict[str, Any]:
    """The fields that every answer begins with."""
    object_ = {"cmpl": "text_completion", "chatcmpl": "chat.completion"}[kind]
    return {
        "id": f"{kind}-{uuid.uuid4().hex}",
        "object": object_,
        "created": int(time.time()),
        "model": name,
    }


def used(prompt: int, new: int) -> dict[str, int]:
    """How many tokens were read and written."""
    return {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}


def sources_json(served: Served, logs: TokenLogs, tau: float, count: int) -> dict[str, Any]:
    """The `knn` field of a choice: where a token comes from."""
    predictor, near = served.predictor, logs.neighbors
    neighbors = []
    if near is not None:
        neighbors = described(predictor.entries, predictor.tokenizer, near, tau, count, logs.token)
    fields = {
        "id": logs.token,
        "logprob": logs.logprob,
        "lm_logprob": logs.lm_logprob,
        "component_logprob": logs.component_logprob,
        "neighbors": neighbors,
    }
    return finite(fields)


async def echoed(
    served: Served, prompt: Prompt, mixing: Mixing, top: int | None
) -> dict[str, Any] | None:
    """The logprobs of a prompt, if they were asked for."""
    if top is None:
        return None
    predictor = served.predictor
    future = served.engine.call(prompt_logs(predictor, prompt.tokens, mixing, top))
    logs = await asyncio.wrap_future(future)
    builder = CompletionLogprobs(predictor.tokenizer, [], 0)
    return await asyncio.to_thread(builder.echo, prompt, logs)  # long prompts have many names
