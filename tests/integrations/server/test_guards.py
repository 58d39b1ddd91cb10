"""Who may ask, how much, and what a browser may do with the answers."""

import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from knnlm.cli.main import run
from knnlm.errors import UsageError
from knnlm.integrations.server.pages import explorer_files
from knnlm.integrations.server.run import Address
from tests.integrations.server.asking import ask

pytestmark = pytest.mark.pipeline
TOKEN = "a-secret-of-some-length"


def test_other_host_names_are_refused(url: str) -> None:
    """A web page elsewhere may have its own name point to this machine."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "a@b"):
        assert ask(url, "/v1/models", headers={"Host": host}).status == 421, host
    for host in ("localhost", "127.0.0.1:8017", "[::1]:80", "LOCALHOST"):
        assert ask(url, "/v1/models", headers={"Host": host}).status == 200, host


def test_a_proxy_in_front_is_answered_under_its_name() -> None:
    assert {"localhost", "knn.example"} <= Address(allow_host=("KNN.example",)).names
    assert "knn.example" not in Address(host="0.0.0.0", public=True).names


def test_addresses_are_answered_and_names_that_nobody_allowed_are_not(
    start: Callable[..., Any],
) -> None:
    """On another interface too: any web page can have a name of its own point to an address."""
    with start(hosts=Address(host="0.0.0.0", public=True).names) as url:
        for host in ("192.0.2.7:8017", "[2001:db8::1]:8017"):
            assert ask(url, "/v1/models", headers={"Host": host}).status == 200
        given = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert ask(url, "/v1/models", headers=given).status == 421


def test_a_name_that_is_allowed_is_answered(start: Callable[..., Any]) -> None:
    with start(hosts=Address(allow_host=("knn.example",)).names) as url:
        given = {"Host": "knn.example", "Origin": "https://knn.example"}
        assert ask(url, "/api/score", {"text": "a cat"}, headers=given).status == 200
        assert ask(url, "/v1/models", headers={"Host": "other.example"}).status == 421


def test_other_web_pages_are_refused(url: str) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://[", ""):
        answer = ask(url, "/api/score", {"text": "a cat"}, headers={"Origin": origin})
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
    assert ask(url, "/api/score", {"text": "a cat"}, headers={"Origin": url}).status == 200
    preflight = ask(url, "/api/score", method="OPTIONS", headers={"Origin": "https://evil.example"})
    assert preflight.status == 403


def test_what_a_form_can_send_is_refused(url: str) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        sent = json.dumps({"text": "a cat"}).encode()
        assert ask(url, "/api/score", sent, headers={"content-type": kind}).status == 415


def test_every_answer_has_the_headers(url: str) -> None:
    for path in ("/", "/explorer.js", "/api/info", "/nothing", "/v1/models"):
        headers = ask(url, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] in ("no-store", "no-cache")


def test_files_can_be_asked_about_without_being_sent(url: str) -> None:
    for path in ("/", "/explorer.js", "/findings.html"):
        answer, whole = ask(url, path, method="HEAD"), ask(url, path)
        assert (answer.status, answer.body) == (200, b"")
        for name in ("content-length", "content-type", "content-security-policy"):
            assert answer.headers[name] == whole.headers[name]


def test_only_the_explorers_files_are_served(url: str) -> None:
    assert {"index.html", "explorer.js", "mixture.js", "findings.html"} <= set(explorer_files())
    for name in explorer_files():
        assert ask(url, f"/{name}").status == 200
    for path in (
        "/../server/app.py",
        "/..%2fserver/app.py",
        "/%2e%2e/%2e%2e/__init__.py",
        "//etc/passwd",
        "/figures/",
        "/figures/../explorer.js/",
        "/.env",
        "/explorer.js%00.html",
    ):
        assert ask(url, path).status in (404, 307), path


def test_a_token_is_asked_for(start: Callable[..., Any]) -> None:
    with start(token=TOKEN) as url:
        for path in ("/v1/models", "/api/info", "/metrics"):
            assert ask(url, path).status == 401
            for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN):
                refused = ask(url, path, headers={"Authorization": wrong})
                assert refused.status == 401
                assert TOKEN not in refused.body.decode()
            for scheme in ("Bearer", "bearer"):
                given = {"Authorization": f"{scheme} {TOKEN}"}
                assert ask(url, path, headers=given).status == 200
        assert ask(url, "/v1/completions", {"prompt": "a"}).status == 401
        for path in ("/", "/healthz", "/explorer.js", "/openapi.json"):
            assert ask(url, path).status == 200


def test_a_request_may_not_be_too_large(start: Callable[..., Any]) -> None:
    with start(most_bytes=2000) as url:
        assert ask(url, "/api/score", {"text": "x" * 3000}).status == 413
        chunks = iter([b'{"text": "', b"x" * 3000, b'"}'])
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
        connection.request(
            "POST",
            "/api/score",
            chunks,
            {"content-type": "application/json"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 413
        connection.close()
        assert ask(url, "/api/score", {"text": "a cat"}).status == 200


def test_a_client_that_sends_too_much_and_leaves_holds_nothing(start: Callable[..., Any]) -> None:
    with start(most_bytes=2000) as url:
        address = urlsplit(url)
        for tail in (b"", b"0\r\n\r\n"):
            with socket.create_connection((address.hostname, address.port), 10) as connection:
                head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                body = b'{"prompt": "a", "n": 16, "max_tokens": 120}'
                chunks = [body, b" " * 3000]
                sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
                connection.sendall(head.encode() + sent + tail)
                assert b" 413 " in connection.recv(100)
            assert ask(url, "/healthz").status == 200
            assert ask(url, "/v1/completions", {"prompt": "a", "max_tokens": 2}).status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "JSON"),
        (b"[]", "valid dictionary"),
        ({"prompt": "a", "suffix": "b"}, "suffix: there is no such field"),
        ({"prompt": "a", "best_of": 3}, "best_of is not supported"),
        ({"prompt": "a", "n": 17}, "less than or equal to 16"),
        ({"prompt": "a", "max_tokens": 5000}, "tokens fit behind this prompt"),
        ({"prompt": "a", "max_tokens": 0}, "ask for at least 1"),
        ({"prompt": "the cat " * 200}, "reads at most 128"),
        ({"prompt": [[1], []]}, "at least 1 item"),
        ({"prompt": [99_999]}, "outside the vocabulary"),
        ({"prompt": ["a"] * 35, "n": 2}, "68 texts at most"),
        ({"prompt": "a", "logit_bias": {"x": 1}}, "no token of this model"),
        ({"prompt": "a", "logit_bias": {"9" * 5000: 1}}, "no token of this model"),
        ({"prompt": "a", "temperature": float("nan")}, "finite"),
        ({"prompt": "a", "stop": ["a"] * 5}, "at most 4"),
        ({"prompt": [True, False]}, "prompt: a number is needed, not true or false"),
        ({"prompt": [[1, 2], [True]]}, "prompt: a number is needed, not true or false"),
        ({"prompt": "a", "knn": {"tau": 0}}, "greater than 0"),
        ({"prompt": "a", "knn": {"tau": 1e308}}, "above 0, between 1e-30 and 1e+30"),
        ({"prompt": "a", "knn": {"component": "nothing"}}, "unknown component"),
    ],
)
def test_what_is_not_possible_gets_a_sentence(url: str, body: Any, words: str) -> None:
    answer = ask(url, "/v1/completions", body)
    assert answer.status == 400
    assert words in answer.message
    assert "Traceback" not in answer.message


def test_an_unknown_model_is_named(url: str) -> None:
    answer = ask(url, "/v1/completions", {"prompt": "a", "model": "gpt-4"})
    assert answer.status == 404
    assert answer.message == "there is no model 'gpt-4' here: use tiny or tiny:base"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::"])
def test_beyond_this_machine_a_token_is_needed(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be reached from other machines: give `token_file`"):
        Address(host=host).token()
    assert Address(host=host, public=True).token() is None
    secret = tmp_path / "token"
    secret.write_text(TOKEN + "\n")
    assert Address(host=host, token_file=secret).token() == TOKEN


@pytest.mark.parametrize(
    "content", ["", "short", "has a space in it, though", "ünïcödé-töken-long"]
)
def test_a_token_must_be_usable(content: str, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(content)
    with pytest.raises(UsageError, match="has no usable token"):
        Address(token_file=secret).token()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["serve", "nowhere"], "there is no datastore nowhere"),
        (["serve", "nowhere", "--host", "0.0.0.0"], "give --token-file, or --public"),
        (["serve", "nowhere", "--port", "70000"], "there is no port 70000"),
        (["serve", "nowhere", "--token-file", "missing"], "missing cannot be read"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) in (1, 2)
    shown = capsys.readouterr().err
    assert told in shown
    assert "Traceback" not in shown
