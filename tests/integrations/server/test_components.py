"""Components that cannot be used, or that fail: what clients are told, and that others go on."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from knnlm import KNNLM, Datastore
from knnlm.errors import DamagedError, UsageError
from knnlm.integrations.server.app import build_app
from knnlm.integrations.server.predictor import Mixed, Mixing, Prediction, Predictor
from tests.conftest import prose
from tests.integrations.server.asking import ask
from tests.integrations.server.conftest import options, running

pytestmark = pytest.mark.pipeline
SHORT = {"prompt": "a", "max_tokens": 2}


@pytest.fixture(scope="module")
def clustered(server_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The datastore with a component beside it, both tuned."""
    folder = tmp_path_factory.mktemp("clustered")
    valid = folder / "valid.txt"
    valid.write_text(prose(99, 60))
    shutil.copytree(server_store, folder / "store")
    Datastore.open(folder / "store").distill(valid, kind="clusters", size=8)
    return folder / "store"


@pytest.fixture(scope="module")
def clustered_url(clustered: Path) -> Iterator[str]:
    with running(build_app(KNNLM(clustered), options())) as url:
        yield url


def with_component(name: str, **fields: Any) -> dict[str, Any]:
    return {**SHORT, "knn": {"component": name}, **fields}


def test_a_component_that_is_tuned_can_be_named(clustered_url: str) -> None:
    assert ask(clustered_url, "/api/info").json["components"] == ["clusters", "knn"]
    assert ask(clustered_url, "/v1/completions", with_component("clusters")).status == 200


def test_what_is_not_tuned_is_neither_listed_nor_used(clustered: Path, tmp_path: Path) -> None:
    store = shutil.copytree(clustered, tmp_path / "store")
    (store / "tuned.json").unlink()
    knnlm = KNNLM(store, lam=0.3, tau=0.08, key="att", metric="l2", exact=True)
    with running(build_app(knnlm, options())) as url:
        assert ask(url, "/api/info").json["components"] == ["knn"]
        answer = ask(url, "/v1/completions", with_component("clusters"))
        assert answer.status == 400
        assert answer.message == "unknown component 'clusters': choose one of knn"
        assert ask(url, "/v1/completions", with_component("knn")).status == 200


def test_what_is_tuned_but_gone_is_not_listed(clustered: Path, tmp_path: Path) -> None:
    store = shutil.copytree(clustered, tmp_path / "store")
    shutil.rmtree(store / "components" / "clusters")
    with running(build_app(KNNLM(store), options())) as url:
        assert ask(url, "/api/info").json["components"] == ["knn"]
        assert ask(url, "/v1/completions", with_component("clusters")).status == 400


@pytest.mark.parametrize("stream", [True, False])
def test_no_path_of_the_server_reaches_a_client(
    clustered: Path, tmp_path: Path, stream: bool
) -> None:
    """A damaged file is told in the server's log; who asked cannot do anything about it."""
    store = shutil.copytree(clustered, tmp_path / "store")
    for file in (store / "components" / "clusters").glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with running(build_app(KNNLM(store), options())) as url:
        answer = ask(url, "/v1/completions", with_component("clusters", stream=stream))
        told = answer.body.decode().removeprefix("data: ")
        assert json.loads(told)["error"]["message"] == "something went wrong in the server"
        assert answer.status == (200 if stream else 500)
        assert ask(url, "/v1/completions", {**SHORT, "stream": stream}).status == 200


def test_paths_in_messages_have_the_served_name(
    clustered: Path, clustered_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Predictor, *_: Any) -> Mixing:
        raise UsageError(f"{clustered}/tuned.json and {self.entries.model_source} are odd: wait")

    monkeypatch.setattr(Predictor, "mixing", refuse)
    answer = ask(clustered_url, "/v1/completions", SHORT)
    assert answer.status == 400
    assert answer.message.startswith("tiny/tuned.json and server-model")
    assert "/tmp" not in answer.message.replace("tiny/", "")


@pytest.mark.parametrize("error", [RuntimeError("a secret"), DamagedError("a secret")])
@pytest.mark.parametrize("stream", [True, False])
def test_a_component_that_fails_fails_only_its_own_texts(
    clustered_url: str, monkeypatch: pytest.MonkeyPatch, error: Exception, stream: bool
) -> None:
    mixed, steps = Predictor.mixed, []

    def failing(self: Predictor, prediction: Prediction, mixing: Mixing, *rest: Any) -> Mixed:
        if mixing.component == "clusters":
            steps.append(1)
            if len(steps) > 3:
                raise error
        return mixed(self, prediction, mixing, *rest)

    monkeypatch.setattr(Predictor, "mixed", failing)
    long = {"prompt": "the cat", "max_tokens": 100, "temperature": 0}
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(ask, clustered_url, "/v1/completions", long) for _ in range(2)]
        asked = {**long, "knn": {"component": "clusters"}, "stream": stream}
        bad = pool.submit(ask, clustered_url, "/v1/completions", asked).result()
        told = bad.body.decode().strip().split("\n\n")[-1].removeprefix("data: ")
        assert json.loads(told)["error"]["message"] == "something went wrong in the server"
        assert bad.status == (200 if stream else 500)
        for each in good:
            assert each.result().status == 200
            assert each.result().json["usage"]["completion_tokens"] == 100
    assert ask(clustered_url, "/v1/completions", SHORT).status == 200
