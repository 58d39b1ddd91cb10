"""Clients that do not send, and clients that do not read."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import Request

from knnlm.integrations.server.guards import Guard
from tests.integrations.server.asking import ask

pytestmark = pytest.mark.pipeline

SCOPE = {"type": "http", "path": "/", "method": "GET", "headers": [(b"host", b"127.0.0.1")]}


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def ends(connection: socket.socket) -> bool:
    """Whether the server closes the connection before the time-out."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def test_connections_that_ask_for_nothing_are_closed(start: Callable[..., Any]) -> None:
    half = b"GET /healthz HTTP/1.1\r\nHost: "
    whole = half + b"localhost\r\n\r\n"
    with start(patience=0.5) as url, ExitStack() as open_:
        for begun in (b"", half, whole + half):
            connection = open_.enter_context(connected(url))
            connection.sendall(begun)
            assert ends(connection), begun


def test_a_request_that_is_answered_slowly_is_not_given_up(start: Callable[..., Any]) -> None:
    """Patience is for the client, not for the model."""
    with start(patience=0.2) as url:
        body = {"prompt": "a", "n": 16, "max_tokens": 120}
        assert ask(url, "/v1/completions", body).status == 200


def respond_with(size: int) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    return app


async def silent() -> Any:
    await asyncio.sleep(60)


def guarded(app: Any, patience: float) -> Guard:
    return Guard(app=app, token=None, hosts=frozenset(), most_bytes=10, patience=patience)


def test_a_whole_answer_is_handed_over_in_parts() -> None:
    """Uvicorn waits for the client before each part: an answer in one part would stay in memory."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guarded(respond_with(1_000_000), 5)(SCOPE, silent, send))
    bodies = [message for message in sent if message["type"] == "http.response.body"]
    assert b"".join(message["body"] for message in bodies) == b"x" * 1_000_000
    assert max(len(message["body"]) for message in bodies) < 100_000
    assert [m.get("more_body", False) for m in bodies] == [True] * (len(bodies) - 1) + [False]


def test_answers_that_nobody_reads_keep_new_requests_out_until_they_are_given_up() -> None:
    """What is unread is bounded in bytes, and for how long."""
    guard = guarded(respond_with(1 << 29), 0.3)
    statuses: list[int] = []

    async def stuck(message: Any) -> None:
        await asyncio.sleep(60)

    async def noted(message: Any) -> None:
        statuses.append(message.get("status", 0))

    post = {**SCOPE, "method": "POST"}
    post["headers"] = [*post["headers"], (b"content-type", b"application/json")]

    async def slow_body(message: Any) -> None:
        if message["type"] == "http.response.body":
            await stuck(message)

    async def run() -> None:
        slow = asyncio.create_task(guard(SCOPE, silent, slow_body))
        await asyncio.sleep(0.1)
        await guard(post, silent, noted)
        await asyncio.wait_for(slow, 20)

    asyncio.run(run())
    assert statuses[0] == 429
    assert guard.unread.bytes == 0


def test_a_score_with_too_many_votes_is_refused(start: Callable[..., Any]) -> None:
    with start(most_votes=100) as url:
        body = {"text": "the cat sat on a mat and on a dog", "votes": True}
        refused = ask(url, "/api/score", body)
        assert refused.status == 400
        assert "score at most 6 tokens, or give a smaller k" in refused.message
        assert ask(url, "/api/score", {**body, "knn": {"k": 1}}).status == 200
        assert ask(url, "/healthz", method="HEAD").status == 200


def test_a_stream_that_cannot_begin_gives_its_texts_up(start: Callable[..., Any]) -> None:
    """The first send fails: nothing was iterated, and the texts end all the same."""
    from knnlm.integrations.server.responding import _Stream

    closed: list[bool] = []

    class Answering:
        async def stream(self) -> Any:
            yield b"data"

        def close(self) -> None:
            closed.append(True)

    async def fails(message: Any) -> None:
        raise OSError("gone")

    answering: Any = Answering()
    stream = _Stream(Request(SCOPE), answering, lambda read, written: None)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - an ExceptionGroup or what is in it
        asyncio.run(stream(SCOPE, silent, fails))
    assert closed == [True]


def test_a_request_that_comes_too_slowly_is_given_up(start: Callable[..., Any]) -> None:
    with start(patience=0.3) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=20) as slow:
            slow.sendall(
                b"POST /api/score HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            answer = b"".join(iter(lambda: slow.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not come within 0.3 s" in answer
        assert ask(url, "/api/score", {"text": "a cat"}).status == 200


def test_a_client_that_does_not_read_its_answer_is_given_up() -> None:
    closed: list[bool] = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            closed.append(True)

    async def stuck(message: Any) -> None:
        await asyncio.sleep(60)

    asyncio.run(asyncio.wait_for(guarded(endless, 0.05)(SCOPE, silent, stuck), 20))
    assert closed == [True]
