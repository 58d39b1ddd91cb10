"""The answers of /v1/completions and /v1/chat/completions, whole or piece by piece."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import orjson

from knnlm.errors import UsageError
from knnlm.integrations.server.completions import (
    Running,
    Served,
    choosing_of,
    echoed,
    identity,
    prompts_of,
    sources_json,
    used,
)
from knnlm.integrations.server.continuation import NewText
from knnlm.integrations.server.logprobs import ChatLogprobs, CompletionLogprobs, Prompt, merged
from knnlm.integrations.server.predictor import Mixing
from knnlm.integrations.server.schemas import ChatRequest, CompletionRequest, GeneratingRequest
from knnlm.text import encode_messages

_CHAT_TOKENS = 256  # of an answer, if the request does not say
DONE = b"data: [DONE]\n\n"


class Piece(NamedTuple):
    """What was added to one choice."""

    text: str
    logprobs: dict[str, Any] | None
    knn: list[dict[str, Any]] | None
    finish: str | None


class Answering:
    """One request while it is answered.

    Args:
        served: What is served.
        request: The request.
        prompts: Its prompts.
        mixing: What it mixes.
        shape: How its API words a choice.
        max_tokens: How many tokens to add to each prompt.
        top: How many likely tokens are reported; None reports no log P.
        echo: The pieces that choices begin with, one for each prompt.
    """

    def __init__(
        self,
        served: Served,
        request: GeneratingRequest,
        prompts: list[Prompt],
        mixing: Mixing,
        shape: "Completions | Chat",
        max_tokens: list[int],
        top: int | None,
        echo: list[Piece] | None = None,
    ) -> None:
        self.served, self.request, self.shape = served, request, shape
        self.mixing, self.prompts, self.echo = mixing, prompts, echo
        self.running = Running(served.engine, request.stream)
        tokenizer = served.predictor.tokenizer
        self.indexes: list[int] = []
        for number, prompt in enumerate(prompts):
            for choice in range(request.n):
                if max_tokens[number]:
                    self.indexes.append(number * request.n + choice)
                    self.running.add(
                        prompt=prompt.tokens,
                        mixing=mixing,
                        choosing=choosing_of(request, number, choice, served.predictor),
                        max_tokens=max_tokens[number],
                        stops=request.stops,
                        ends=served.ends,
                        top=top,
                        sources=request.knn.sources > 0,
                        tokenizer=tokenizer,
                        whole=prompt.whole,
                    )
        self.builders = [
            shape.builder(served, prompts[index // request.n], echo is not None)
            for index in self.indexes
        ]
        self.head = identity(shape.kind, request.model or served.name)
        self.top = top

    async def whole(self) -> dict[str, Any]:
        """All choices at once."""
        count = len(self.prompts) * self.request.n
        pieces: list[list[Piece]] = [
            [] if self.echo is None else [self.echo[index // self.request.n]]
            for index in range(count)
        ]
        async for index, piece in self._pieces():
            pieces[index].append(piece)
        choices = [self.shape.whole(i, self._joined(each)) for i, each in enumerate(pieces)]
        return {**self.head, "choices": choices, "usage": self.usage()}

    async def stream(self) -> AsyncIterator[bytes]:
        """Choices as they grow, as server-sent events."""
        head: dict[str, Any] = {**self.head, "object": self.shape.chunk_object}
        options = self.request.stream_options
        says_usage = options is not None and options.include_usage
        if says_usage:
            head["usage"] = None
        begun: set[int] = set()
        if self.echo is not None:
            for index in range(len(self.prompts) * self.request.n):
                begun.add(index)
                piece = self.echo[index // self.request.n]
                if index not in self.indexes:  # nothing is added to it
                    piece = piece._replace(finish="length")
                yield sse({**head, "choices": [self.shape.part(index, piece, True)]})
        async for index, piece in self._pieces():
            if piece.text or piece.finish or piece.logprobs or piece.knn:
                part = self.shape.part(index, piece, index not in begun)
                begun.add(index)
                yield sse({**head, "choices": [part]})
        if says_usage:
            yield sse({**head, "choices": [], "usage": self.usage()})
        yield DONE

    def close(self) -> None:
        """Give up what has not ended."""
        self.running.close()

    async def _pieces(self) -> AsyncIterator[tuple[int, Piece]]:
        async for event in self.running.events():
            new = event.new
            assert isinstance(new, NewText)
            yield self.indexes[event.choice], self._piece(event.choice, new)
            await asyncio.sleep(0)  # an answer with many sources must not hold up the others

    def _piece(self, choice: int, new: NewText) -> Piece:
        logs, knn = new.logs, None
        logprobs = None
        if logs is not None and self.top is not None:
            logprobs = self.builders[choice].new(logs, new.finish is not None)
        if logs is not None and self.request.knn.sources:
            knn = [sources_json(self.served, logs, self.mixing.tau, self.request.knn.sources)]
        return Piece(new.text, logprobs, knn, new.finish)

    def _joined(self, pieces: list[Piece]) -> Piece:
        knn = [each for piece in pieces for each in piece.knn or []]
        logs = [piece.logprobs for piece in pieces if piece.logprobs is not None]
        return Piece(
            "".join(piece.text for piece in pieces),
            self.shape.joined(logs),
            knn if self.request.knn.sources else None,
            pieces[-1].finish or "length",
        )

    def usage(self) -> dict[str, int]:
        """How many tokens were read and written."""
        read = sum(len(prompt.tokens) for prompt in self.prompts)
        return used(read, sum(len(text.new) for text in self.running.texts))


class Completions:
    """The words of /v1/completions."""

    kind, chunk_object = "cmpl", "text_completion"

    def builder(self, served: Served, prompt: Prompt, echo: bool) -> CompletionLogprobs:
        """What makes the logprobs of a choice."""
        offset = len(prompt.text) if echo else 0
        return CompletionLogprobs(served.predictor.tokenizer, prompt.tokens, offset, prompt.whole)

    def whole(self, index: int, piece: Piece) -> dict[str, Any]:
        """A choice."""
        choice = {
            "index": index,
            "text": piece.text,
            "logprobs": piece.logprobs,
            "finish_reason": piece.finish,
        }
        return choice if piece.knn is None else {**choice, "knn": piece.knn}

    def part(self, index: int, piece: Piece, first: bool) -> dict[str, Any]:
        """A part of one."""
        return self.whole(index, piece)

    def joined(self, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Lists one behind the other."""
        return merged(parts)


class Chat:
    """The words of /v1/chat/completions."""

    kind, chunk_object = "chatcmpl", "chat.completion.chunk"

    def builder(self, served: Served, prompt: Prompt, echo: bool) -> ChatLogprobs:
        """What makes the logprobs of a choice."""
        return ChatLogprobs(served.predictor.tokenizer, prompt.tokens)

    def whole(self, index: int, piece: Piece) -> dict[str, Any]:
        """A choice."""
        message = {"role": "assistant", "content": piece.text, "refusal": None}
        return self._choice(index, piece, message=message)

    def part(self, index: int, piece: Piece, first: bool) -> dict[str, Any]:
        """A part of one; the first says who speaks."""
        role = {"role": "assistant"} if first else {}
        return self._choice(index, piece, delta={**role, "content": piece.text})

    def joined(self, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
        """One list of all tokens."""
        if not parts:
            return None
        return {"content": [token for part in parts for token in part["content"]]}

    def _choice(self, index: int, piece: Piece, **said: Any) -> dict[str, Any]:
        choice = {
            "index": index,
            **said,
            "logprobs": piece.logprobs,
            "finish_reason": piece.finish,
        }
        return choice if piece.knn is None else {**choice, "knn": piece.knn}


async def answer_completion(served: Served, request: CompletionRequest) -> Answering:
    """Begin to answer a completion.

    Raises:
        UsageError: Something in the request is not possible.
    """
    if request.best_of not in (None, request.n):
        raise UsageError("best_of is not supported: leave it out, or ask for as many with n")
    if not request.max_tokens and not request.echo:
        raise UsageError("max_tokens is 0: ask for at least 1, or for echo")
    mixing = served.mixing(request.model, request.knn)
    prompts = await asyncio.to_thread(prompts_of, request, served.predictor)
    if len(prompts) * request.n > (most := served.engine.capacity.total):
        raise UsageError(f"a request may ask for {most} texts at most: send fewer prompts at once")
    room = [served.room(len(prompt.tokens), request.max_tokens, 16) for prompt in prompts]
    echo = None
    if request.echo:
        logs = [await echoed(served, prompt, mixing, request.logprobs) for prompt in prompts]
        echo = [Piece(p.text, log, None, None) for p, log in zip(prompts, logs, strict=True)]
    answering = Answering(
        served, request, prompts, mixing, Completions(), room, request.logprobs, echo
    )
    answering.running.begin()
    return answering


async def answer_chat(served: Served, request: ChatRequest) -> Answering:
    """Begin to answer a chat.

    Raises:
        UsageError: The model has no chat template, or something in the request is not possible.
    """
    if request.top_logprobs is not None and not request.logprobs:
        raise UsageError("top_logprobs needs logprobs: set it to true")
    if not getattr(served.predictor.tokenizer, "chat_template", None):
        raise UsageError("this model has no chat template: use /v1/completions")
    mixing = served.mixing(request.model, request.knn)
    messages = [{"role": m.role, "content": m.text} for m in request.messages]
    tokens = await asyncio.to_thread(encode_messages, served.predictor.tokenizer, messages)
    prompt = Prompt(tokens, "")
    wanted = request.max_completion_tokens or request.max_tokens
    room = served.room(len(prompt.tokens), wanted, _CHAT_TOKENS)
    top = (request.top_logprobs or 0) if request.logprobs else None
    answering = Answering(served, request, [prompt], mixing, Chat(), [room], top)
    answering.running.begin()
    return answering


def sse(event: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(event) + b"\n\n"
