"""Uvicorn, set up so that a connection that asks for nothing is closed.

Uvicorn closes connections that are idle between two requests, but waits for ever for the first
request and for the rest of a request's headers. A thousand such connections would keep everyone
else out.
"""

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_CONNECTIONS = 1000  # beyond this a request gets 503


def uvicorn_config(app: Any, patience: float, shutdown: int | None = None) -> uvicorn.Config:
    """How a server of ours is run.

    Args:
        app: What answers.
        patience: Seconds that a connection may take to ask for something.
        shutdown: Seconds for what has begun when the server stops; None waits until it has ended.
    """

    class Patient(_PatientProtocol):
        pass

    Patient.patience = patience
    return uvicorn.Config(
        app,
        http=Patient,
        log_level="error",  # a warning is written for each request that is no HTTP
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=shutdown,
        limit_concurrency=_CONNECTIONS,
    )


class _PatientProtocol(H11Protocol):
    """One connection."""

    patience: float
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def _wait(self) -> None:
        """From here on time runs, unless a request is being answered: that one has its own limits.
        Bytes that come do not begin it again, or one byte at a time would last for ever."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
