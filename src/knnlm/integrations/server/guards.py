"""What stands in front of the server: who may ask, how much, and what a browser may do with it.

Plain ASGI, so that a client that goes away is still noticed behind it."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
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
_PROTECTED = ("/v1/", "/api/", "/metrics")
_CLOSE = {"connection": "close"}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SlowClient(Exception):
    """The client does not take its answer: the connection is given up."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Refuses what is not allowed before anything is read.

    Attributes:
        app: What is behind it.
        token: The bearer token that /v1, /api and /metrics ask for; None asks for none.
        hosts: Names in the Host header that are answered; None answers all. On loopback others are
            refused: a web page elsewhere could have its own name point here.
        most_bytes: Of a request's body.
        patience: Seconds for a client to send its request, and to take each part of the answer.
    """

    app: App
    token: str | None
    hosts: frozenset[str] | None
    most_bytes: int
    patience: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*headers, *_HEADERS]}
            try:
                await asyncio.wait_for(send(message), self.patience)
            except TimeoutError:
                raise SlowClient from None

        refusal = self._refusal(scope)
        if refusal is not None:
            await respond_error(with_headers, *refusal)
            return
        try:
            await self.app(scope, self._bounded(receive), with_headers)
        except* SlowClient:  # the connection is closed, since the answer has no end
            log.warning(f"{scope['path']}: the client took too long to read its answer")

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if self.hosts is not None and _hostname(host) not in self.hosts:
            return 421, "misdirected", "this server does not answer to that name: see --allow-host"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "forbidden", "requests from other web pages are refused"
        path = str(scope["path"])
        if self.token is not None and path.startswith(_PROTECTED):
            given = headers.get("authorization", "")
            wanted = f"Bearer {self.token}"
            if not hmac.compare_digest(given.encode(), wanted.encode()):
                return 401, "unauthorized", "a bearer token is needed: see --token-file"
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").split(";")[0].strip().lower()
            if kind != "application/json":
                return 415, "unsupported_media_type", "send application/json"
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > self.most_bytes:
                return 413, "too_large", f"a request has at most {self.most_bytes:,} bytes"
        return None

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
                raise HTTPException(413, f"a request has at most {self.most_bytes:,} bytes")
            whole = not message.get("more_body", False)
            return message

        return bounded


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
