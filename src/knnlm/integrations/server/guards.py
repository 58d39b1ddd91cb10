"""What stands in front of the server: who may ask, how much, and what a browser may do with it.

Plain ASGI, so that a client that goes away is still noticed behind it."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.exceptions import HTTPException

from knnlm.progress import log

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
PROTECTED = ("/v1/", "/api/", "/metrics")
_CLOSE = {"connection": "close"}
_PART = 1 << 16  # bytes of an answer that are handed to the connection at once
_SLOWEST = 1 << 16  # bytes a second that a client must take
_MOST_UNREAD = 1 << 28  # bytes of all answers that are being sent
STOPPING = "the server is shutting down"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SlowClient(Exception):
    """The client does not take its answer: the connection is given up."""


@dataclass
class Unread:
    """Bytes of answers that no client has taken yet."""

    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Refuses what is not allowed before anything is read.

    Attributes:
        app: What is behind it.
        token: The bearer token that /v1, /api and /metrics ask for; None asks for none.
        hosts: Names in the Host header that are answered. Others are refused: a web page elsewhere
            could have its own name point here.
        most_bytes: Of a request's body.
        patience: Seconds for a client to send its request, and to take each part of the answer.
    """

    app: App
    token: str | None
    hosts: frozenset[str]
    most_bytes: int
    patience: float
    unread: Unread = field(default_factory=Unread)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started = False

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message.get("headers", ()))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*headers, *_HEADERS]}
            await self._send(message, send)

        refusal = self._refusal(scope)
        if refusal is not None:
            await respond_error(with_headers, *refusal)
            return
        try:
            await self._answered(scope, self._bounded(receive), with_headers)
        except asyncio.CancelledError:  # only the end of a server that stops cancels requests
            log.warning(f"{scope['path']}: given up, because the server stops")
            if not started:
                await respond_error(with_headers, 503, "shutting_down", STOPPING)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except* SlowClient:  # the connection is closed, since the answer has no end
            log.warning(f"{scope['path']}: the client took too long to read its answer")

    async def _send(self, message: MutableMapping[str, Any], send: Send) -> None:
        size = len(message.get("body", b""))
        self.unread.bytes += size
        try:
            async with asyncio.timeout(self.patience + size / _SLOWEST):
                for part in _parts(message):
                    await asyncio.wait_for(send(part), self.patience)
        except TimeoutError:
            raise SlowClient from None
        finally:
            self.unread.bytes -= size

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if not self._answers_to(_hostname(host)):
            return 421, "misdirected", "this server does not answer to that name: see --allow-host"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "forbidden", "requests from other web pages are refused"
        path = str(scope["path"])
        if self.token is not None and path.startswith(PROTECTED):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode(), self.token.encode())
            if scheme.lower() != "bearer" or not same:
                return 401, "unauthorized", "a bearer token is needed: see --token-file"
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").split(";")[0].strip().lower()
            if kind != "application/json":
                return 415, "unsupported_media_type", "send application/json"
            length = headers.get("content-length", "0")
            if not _is_number(length) or int(length) > self.most_bytes:
                return 413, "too_large", f"a request has at most {self.most_bytes:,} bytes"
            if self.unread.bytes > _MOST_UNREAD:
                return 429, "too_busy", "too many answers wait to be read: try again later"
        return None

    def _answers_to(self, name: str) -> bool:
        """Addresses are always answered: only a name can be made to point here."""
        return name in self.hosts or _is_address(name)

    def _bounded(self, receive: Receive) -> Receive:
        """A body without a declared length is counted as it comes; all of it must come in time."""
        seen, whole = 0, False
        until = asyncio.get_running_loop().time() + self.patience

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal seen, whole
            try:
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"the request did not come within {self.patience:g} s", _CLOSE
                ) from None
            seen += len(message.get("body", b""))
            if seen > self.most_bytes:
                raise HTTPException(413, f"a request has at most {self.most_bytes:,} bytes", _CLOSE)
            whole = not message.get("more_body", False)
            return message

        return bounded


def _parts(message: MutableMapping[str, Any]) -> Iterator[MutableMapping[str, Any]]:
    """A message in parts. Uvicorn waits for the client before each part but not after the last: a
    whole answer would stay in memory for as long as the client likes."""
    body = message.get("body", b"")
    if len(body) <= _PART:
        yield message
        return
    for start in range(0, len(body), _PART):
        yield {**message, "body": body[start : start + _PART], "more_body": True}
    if not message.get("more_body", False):
        yield {**message, "body": b"", "more_body": False}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def respond_error(send: Send, status: int, code: str, message: str) -> None:
    """An error in the words of the API."""
    body = orjson.dumps(error_json(message, status, code))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_json(
    message: str, status: int, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """The body of an error, as OpenAI clients expect it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
