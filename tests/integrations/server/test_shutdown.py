"""A server that is told to stop while it has more to do than it is given time for."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integrations.server.test_load import LONG, begin, gauge, until

pytestmark = pytest.mark.pipeline
PROGRAM = """
import contextlib, sys, time

from knnlm import KNNLM
from knnlm.integrations.server import app
from knnlm.integrations.server.continuation import Continuation
from knnlm.integrations.server.run import Address, serve

def endless(*_):
    while True:
        time.sleep(0.01)
        yield

def slow(*arguments):
    time.sleep(0.1)
    take(*arguments)

app.score, take, Continuation.take = endless, Continuation.take, slow
with contextlib.suppress(KeyboardInterrupt):
    serve(KNNLM(sys.argv[1]), Address(port=0), grace=1, on_ready=lambda url: print(url, flush=True))
"""
STOPPING = {
    "message": "the server is shutting down",
    "type": "server_error",
    "param": None,
    "code": "shutting_down",
}


@contextmanager
def slow_server(store: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server with a second of grace that never ends a score and takes ten seconds for a text."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def answer(connection: http.client.HTTPConnection) -> tuple[int, str]:
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


@pytest.mark.parametrize(
    ("stop", "scores"), [(signal.SIGINT, 3), (signal.SIGTERM, 1)], ids=["SIGINT", "SIGTERM"]
)
def test_what_is_left_at_the_end_is_refused(
    server_store: Path, stop: signal.Signals, scores: int
) -> None:
    with slow_server(server_store) as (url, process):
        asked: list[tuple[str, dict[str, Any]]] = [("/api/score", {"text": "a cat"})] * scores
        asked += [("/v1/completions", LONG), ("/v1/completions", {**LONG, "echo": True})]
        waiting = [begin(url, body, path) for path, body in asked]
        stream = begin(url, {**LONG, "stream": True})
        until(lambda: gauge(url, "knnlm_active_texts") == 3)
        until(lambda: gauge(url, "knnlm_waiting") == scores)
        process.send_signal(stop)
        for connection in waiting:
            status, text = answer(connection)
            assert (status, json.loads(text)) == (503, {"error": STOPPING})
        status, text = answer(stream)
        *_, last = text.strip().split("\n\n")
        assert (status, json.loads(last.removeprefix("data: "))) == (
            200,
            {"error": STOPPING, "status": 503},
        )
        _, told = process.communicate(timeout=20)
        assert "Traceback" not in told
        assert "500" not in told


def test_a_request_that_has_not_come_by_then_is_refused_too(server_store: Path) -> None:
    with slow_server(server_store) as (url, process):
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), 20) as connection:
            head = "POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
            until(lambda: gauge(url, "knnlm_waiting") == 0)
            process.send_signal(signal.SIGINT)
            received = b""
            while part := connection.recv(1 << 16):
                received += part
        assert received.startswith(b"HTTP/1.1 503 ")
        assert json.loads(received.partition(b"\r\n\r\n")[2]) == {"error": STOPPING}
        _, told = process.communicate(timeout=20)
        assert "Traceback" not in told
