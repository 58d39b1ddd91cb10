"""The server under load, beside `transformers serve` with the base model in the same run.

    python benchmarks/server.py STORE MODEL [--seconds 120] [--clients 64] [--out FILE.json]

Rounds alternate between the two servers: as many clients send the same greedy completions to each,
and the ratio is that of the medians of written tokens a second. Then one server alone has all
clients for `--seconds`: statuses, latencies and memory. Then ten times as many clients for a sixth
of that time. Last, a client that leaves: how long until its place is free."""

import argparse
import contextlib
import http.client
import json
import os
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROMPTS = ["The with statement", "Return a new", "This module provides", "class Example:", "If the"]
TOKENS, ROUND, ROUNDS = 32, 15.0, 3


class Load(NamedTuple):
    """What clients saw."""

    statuses: Counter[int]
    latencies: list[float]
    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Written tokens a second."""
        return self.tokens / self.seconds


def post(port: int, body: dict[str, Any], timeout: float = 120) -> tuple[int, bytes]:
    """One request; status 0 where there was no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def load(port: int, model: str, clients: int, seconds: float) -> Load:
    """Clients that ask again as soon as they have an answer."""
    end, began = time.monotonic() + seconds, time.monotonic()
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    written, lock = [0], threading.Lock()

    def client(number: int) -> None:
        at = number
        while time.monotonic() < end:
            at += 1
            body = {
                "model": model,
                "prompt": PROMPTS[at % len(PROMPTS)],
                "max_tokens": TOKENS,
                "temperature": 0,
            }
            sent = time.monotonic()
            status, answer = post(port, body)
            with lock:
                statuses[status] += 1
                if status == 200:
                    latencies.append(time.monotonic() - sent)
                    written[0] += json.loads(answer)["usage"]["completion_tokens"]
            if status != 200:
                time.sleep(0.2)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(statuses, latencies, written[0], time.monotonic() - began)


@contextlib.contextmanager
def serving(command: list[str], port: int, path: str) -> Iterator[int]:
    """A server as a process; its id."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            time.sleep(0.2)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            with contextlib.suppress(OSError):
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    break
            connection.close()
        else:
            raise SystemExit(f"{command[:4]} did not start")
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def resident(pid: int) -> int:
    """Memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def quantiles(values: list[float]) -> dict[str, float]:
    """p50 and p99, in seconds."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
    }


def freed(port: int, model: str) -> float:
    """Seconds from a client's leaving to a free place."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {
        "model": model,
        "prompt": "The",
        "max_tokens": 400,
        "temperature": 0,
        "stream": True,
        "n": 8,
    }
    connection.request(
        "POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"}
    )
    answer = connection.getresponse()
    answer.read(200)
    answer.close()
    connection.close()
    left = time.monotonic()
    while True:
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        asking.request("GET", "/metrics")
        page = asking.getresponse().read().decode()
        asking.close()
        if "knnlm_active_texts 0.0" in page:
            return time.monotonic() - left
        time.sleep(0.01)


def measure(
    store: str, model: str, options: list[str], clients: int, seconds: float
) -> dict[str, Any]:
    """Everything."""
    name, ports = Path(store).name, (8231, 8232)
    ours = [sys.executable, "-m", "knnlm", "serve", store, "--port", str(ports[0]), *options]
    theirs = [
        str(Path(sys.executable).parent / "transformers"),
        "serve",
        model,
        "--port",
        str(ports[1]),
        "--device",
        "cpu",
    ]
    numbers: dict[str, Any] = {
        "options": options,
        "clients": clients,
        "tokens": TOKENS,
        "store": name,
    }
    with serving(ours, ports[0], "/healthz") as pid:
        with serving(theirs, ports[1], "/health"):
            rates: dict[str, list[float]] = {"knnlm": [], "transformers": []}
            for port, served in ((ports[0], name), (ports[1], model)):
                load(port, served, 2, 5)  # warm
            for _ in range(ROUNDS):
                rates["knnlm"].append(load(ports[0], name, clients, ROUND).rate)
                rates["transformers"].append(load(ports[1], model, clients, ROUND).rate)
            numbers["tokens_per_second"] = {k: [round(r, 1) for r in v] for k, v in rates.items()}
            numbers["throughput_ratio"] = round(
                statistics.median(rates["knnlm"]) / statistics.median(rates["transformers"]), 2
            )
        memory = [resident(pid)]
        for part in ("load", "overload"):
            count, time_ = (clients, seconds) if part == "load" else (10 * clients, seconds / 6)
            result = load(ports[0], name, count, time_)
            memory.append(resident(pid))
            numbers[part] = {
                "clients": count,
                "seconds": round(result.seconds, 1),
                "statuses": dict(result.statuses),
                "tokens_per_second": round(result.rate, 1),
                **quantiles(result.latencies),
            }
        numbers["resident_megabytes"] = [round(value / 1e6) for value in memory]
        numbers["freed_seconds"] = round(max(freed(ports[0], name) for _ in range(3)), 3)
    return numbers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument(
        "--options", default="", help="of knnlm serve, as in --options='--index NAME'"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    options = shlex.split(given.options)
    numbers = measure(given.store, given.model, options, given.clients, given.seconds)
    print(json.dumps(numbers, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(numbers, indent=1) + "\n")
