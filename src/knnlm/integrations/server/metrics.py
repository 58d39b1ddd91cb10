"""Counters for Prometheus, each server with its own."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from knnlm.integrations.server.engine import Engine

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """What a server has done, and what it is doing.

    Args:
        engine: Whose queue is reported.
        paths: Paths that are counted by name; all others are "other".
    """

    def __init__(self, engine: Engine, paths: frozenset[str]) -> None:
        self._paths, self._registry = paths, CollectorRegistry()
        self._requests = Counter(
            "knnlm_requests",
            "Requests by path and status.",
            ("path", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "knnlm_request_seconds",
            "From a request to the end of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter(
            "knnlm_tokens", "Tokens read and written.", ("kind",), registry=self._registry
        )
        for name, help_, value in (
            ("knnlm_active_texts", "Texts that are being continued.", lambda: engine.active),
            ("knnlm_waiting", "Texts and calls that wait.", lambda: engine.waiting),
        ):
            Gauge(name, help_, registry=self._registry).set_function(value)

    def count_tokens(self, read: int, written: int) -> None:
        """Count tokens of one answer."""
        self._tokens.labels("read").inc(read)
        self._tokens.labels("written").inc(written)

    def page(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)

    def middleware(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Count the requests of an app."""

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            path = scope["path"] if scope["path"] in self._paths else "other"
            status, began = 499, time.monotonic()  # 499: the client went away first

            async def noting(message: MutableMapping[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, noting)
            finally:
                self._requests.labels(path, str(status)).inc()
                self._seconds.labels(path).observe(time.monotonic() - began)

        return counted
