"""Answers on their way to the client: what ends when it goes away, and what it takes with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from knnlm.integrations.server.answers import Answering, sse
from knnlm.integrations.server.errors import ClientGone

CountTokens = Callable[[int, int], None]


async def respond(
    request: Request,
    begin: Callable[[], Awaitable[Answering]],
    stream: bool,
    count: CountTokens,
) -> Response:
    """Answer a request whole or as a stream.

    Args:
        request: The request.
        begin: Begins the answer.
        stream: Whether it is a stream.
        count: Told how many tokens were read and written.
    """
    async with watched(request):
        answering = await begin()
    if stream:
        return _Stream(request, answering, count)
    try:
        async with watched(request):
            whole = await answering.whole()
    finally:
        answering.close()
    count(whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"])
    return Response(orjson.dumps(whole), media_type="application/json")


class _Stream(StreamingResponse):
    """An answer as server-sent events; when the client goes away, its texts go too."""

    def __init__(self, request: Request, answering: Answering, count: CountTokens) -> None:
        super().__init__(_events(request, answering, count), media_type="text/event-stream")
        self._answering = answering

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it. The texts end even if its first byte cannot be sent."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answering.close()


async def _events(
    request: Request, answering: Answering, count: CountTokens
) -> AsyncIterator[bytes]:
    try:
        async for event in answering.stream():
            yield event
        used = answering.usage()
        count(used["prompt_tokens"], used["completion_tokens"])
    except Exception as error:
        status, body = request.app.state.refusals.of(request, error)
        yield sse({**body, "status": status})


@asynccontextmanager
async def watched(request: Request) -> AsyncIterator[None]:
    """Give up what is awaited as soon as its client has gone.

    Raises:
        ClientGone: It has.
    """
    task, gone = asyncio.current_task(), False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        if task is not None:
            task.uncancel()
        raise ClientGone from None
    finally:
        watching.cancel()
