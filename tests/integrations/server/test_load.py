"""Many at once: what does not fit is refused, who leaves frees the place, and nothing is lost."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from knnlm import KNNLM
from knnlm.integrations.server.app import build_app
from knnlm.integrations.server.continuation import Continuation
from knnlm.integrations.server.engine import Capacity
from tests.conftest import prose
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import options, running

pytestmark = pytest.mark.pipeline
LONG = {"prompt": "the cat", "max_tokens": 100, "temperature": 0}


def gauge(url: str, name: str) -> float:
    for line in ask(url, "/metrics").body.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(name)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def begin(
    url: str, body: dict[str, Any], path: str = "/v1/completions"
) -> http.client.HTTPConnection:
    """A request whose answer is not waited for."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    sent = json.dumps(body)
    connection.request("POST", path, sent, {"content-type": "application/json"})
    return connection


def test_too_many_are_told_to_come_back(start: Callable[..., Any]) -> None:
    with start(capacity=Capacity(batch=2, waiting=2)) as url, ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: ask(url, "/v1/completions", LONG), range(24)))
        statuses = Counter(answer.status for answer in answers)
        assert set(statuses) == {200, 429}
        refused = next(answer for answer in answers if answer.status == 429)
        assert refused.headers["retry-after"] == "1"
        assert refused.message == "too many requests wait: try again later"
        assert (
            len({answer.json["choices"][0]["text"] for answer in answers if answer.status == 200})
            == 1
        )
        assert ask(url, "/v1/completions", LONG).status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_place(start: Callable[..., Any], stream: bool) -> None:
    with start(capacity=Capacity(batch=1, waiting=8)) as url:
        body = {**LONG, "n": 4, "stream": stream}
        connection = begin(url, body)
        until(lambda: gauge(url, "knnlm_active_texts") == 1)
        if stream:
            response = connection.getresponse()
            response.read(10)
            response.close()
        connection.close()
        left = time.monotonic()
        until(lambda: gauge(url, "knnlm_active_texts") + gauge(url, "knnlm_waiting") == 0)
        assert time.monotonic() - left < 5
        assert ask(url, "/v1/completions", {**LONG, "max_tokens": 2}).status == 200


def test_a_client_that_leaves_before_its_prompts_are_read_frees_its_place(
    start: Callable[..., Any],
) -> None:
    """Echo reads prompts before anything is written."""
    with start(capacity=Capacity(batch=1, waiting=60)) as url:
        prompts = ["the cat sat on a mat " * 4] * 60
        connection = begin(url, {"prompt": prompts, "max_tokens": 40, "echo": True, "logprobs": 5})
        time.sleep(0.1)
        connection.close()
        until(lambda: gauge(url, "knnlm_active_texts") + gauge(url, "knnlm_waiting") == 0, 5)
        assert 'path="/v1/completions",status="499"' in ask(url, "/metrics").body.decode()


def test_a_long_score_holds_nobody_up_and_ends_when_its_client_leaves(
    start: Callable[..., Any],
) -> None:
    """Its parts take turns with the steps of other texts and with other calls."""
    long = {"text": prose(5, 100), "neighbors": 50, "top": 50, "votes": True}
    with start() as url:
        connection = begin(url, long, "/api/score")
        until(lambda: gauge(url, "knnlm_waiting") == 1)
        assert ask(url, "/api/score", {"text": "the cat sat"}).status == 200
        assert gauge(url, "knnlm_waiting") == 1
        connection.close()
        until(lambda: gauge(url, "knnlm_waiting") == 0)
        assert 'path="/api/score",status="499"' in ask(url, "/metrics").body.decode()


def test_a_text_that_fails_fails_alone(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Continuation.take

    def failing(self: Continuation, *arguments: Any) -> None:
        if self.max_tokens == 66 and len(self.new) == 3:
            raise RuntimeError("a broken text")
        take(self, *arguments)

    monkeypatch.setattr(Continuation, "take", failing)
    with start() as url, ThreadPoolExecutor(2) as pool:
        good = pool.submit(ask, url, "/v1/completions", LONG)
        bad = pool.submit(ask, url, "/v1/completions", {**LONG, "max_tokens": 66})
        assert bad.result().status == 500
        assert "broken" not in bad.result().message
        assert good.result().status == 200
        assert good.result().json["usage"]["completion_tokens"] == 100


def test_nothing_new_is_taken_while_the_server_stops(knnlm_model: KNNLM) -> None:
    app = build_app(knnlm_model, options(capacity=Capacity(batch=2)))
    with running(app) as url:
        connection = begin(url, LONG)
        until(lambda: gauge(url, "knnlm_active_texts") == 1)
        app.stop_taking()
        assert ask(url, "/healthz").status == 503
        assert ask(url, "/v1/completions", LONG).status == 503
        assert connection.getresponse().status == 200
        connection.close()


def test_what_has_begun_is_finished_when_the_server_stops(knnlm_model: KNNLM) -> None:
    answers: list[int] = []
    app = build_app(knnlm_model, options(capacity=Capacity(batch=2)))
    with running(app) as url:
        wanted = ask(url, "/v1/completions", LONG).json["choices"][0]["text"]
        connection = begin(url, LONG)
        until(lambda: gauge(url, "knnlm_active_texts") == 1)

        def wait() -> None:
            response = connection.getresponse()
            answers.append(response.status)
            assert json.loads(response.read())["choices"][0]["text"] == wanted
            connection.close()

        waiting = threading.Thread(target=wait)
        waiting.start()
    waiting.join(20)
    assert answers == [200]


def test_settings_do_not_leak_between_requests_of_one_batch(url: str) -> None:
    """Requests with different λ, τ, k and sampling share each step."""
    bodies: list[dict[str, Any]] = [
        {"prompt": "the cat", "max_tokens": 20, "temperature": 0, "knn": knn}
        for knn in ({}, {"lambda": 0}, {"lambda": 1}, {"k": 1}, {"tau": 0.1, "lambda": 0.8})
    ]
    bodies += [{"prompt": "number 7", "max_tokens": 20, "seed": 3, "temperature": 0.7}]
    alone = [ask(url, "/v1/completions", body).json["choices"][0]["text"] for body in bodies]
    assert len(set(alone)) > 3
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda body: ask(url, "/v1/completions", body), bodies * 4))
    assert [answer.json["choices"][0]["text"] for answer in together] == alone * 4


def test_requests_and_tokens_are_counted(start: Callable[..., Any]) -> None:
    with start() as url:
        ask(url, "/v1/completions", {**LONG, "max_tokens": 7})
        ask(url, "/v1/completions", {"prompt": 3})
        ask(url, "/some/where")
        page = ask(url, "/metrics").body.decode()
    assert 'knnlm_requests_total{path="/v1/completions",status="200"} 1.0' in page
    assert 'knnlm_requests_total{path="/v1/completions",status="400"} 1.0' in page
    assert 'knnlm_requests_total{path="other",status="404"} 1.0' in page
    assert 'knnlm_tokens_total{kind="written"} 7.0' in page


def test_texts_are_in_no_log_unless_asked_for(
    start: Callable[..., Any], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("DEBUG"), start() as url:
        ask(url, "/v1/completions", {"prompt": "a very secret cat", "max_tokens": 2})
        ask(url, "/api/score", {"text": "a very secret cat"})
        ask(url, "/v1/completions", {"prompt": "a very secret cat", "max_tokens": -2})
    shown = capfd.readouterr()
    assert "secret" not in caplog.text + shown.out + shown.err
