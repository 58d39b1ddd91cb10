"""A tiny model and a datastore of several documents behind a real server on loopback."""

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
import uvicorn

from knnlm import KNNLM, Datastore
from knnlm.integrations.server.app import ServerOptions, build_app
from knnlm.integrations.server.connections import uvicorn_config
from knnlm.integrations.server.engine import Capacity
from knnlm.integrations.server.guards import LOOPBACK
from knnlm.integrations.server.predictor import Predictor
from knnlm.models.presets import SMOKE, new_model
from knnlm.text.tokenizer import train_tokenizer
from tests.conftest import prose

K = 16
DOCUMENTS = 12


def write_documents(folder: Path, without: Collection[str] = ()) -> Path:
    """Documents of prose, each with a sentence of its own; all but those left out."""
    folder.mkdir()
    for number in range(DOCUMENTS):
        name = f"{number:02}.txt"
        if name not in without:
            own = f"number {number} has a sentence of its own. "
            (folder / name).write_text(own + prose(number, 20) + own)
    return folder


@pytest.fixture(scope="session")
def server_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with room for 128 tokens and a chat template."""
    folder = tmp_path_factory.mktemp("server-model")
    tokenizer = train_tokenizer((prose(number, 40) for number in range(8)), 300)
    each = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    tokenizer.chat_template = "{{ bos_token }}" + each + "assistant:"
    preset = dataclasses.replace(SMOKE, width=16, layers=2, heads=2, context=128)
    torch.manual_seed(0)
    new_model(preset, len(tokenizer), tokenizer.bos_token_id).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def server_store(tmp_path_factory: pytest.TempPathFactory, server_model: Path) -> Path:
    """Its datastore, tuned with exact search and few neighbors."""
    folder = tmp_path_factory.mktemp("server-store")
    text = write_documents(folder / "docs")
    valid = folder / "valid.txt"
    valid.write_text(prose(99, 60))
    KNNLM(Datastore.build(server_model, text, folder / "store")).tune(valid, k=K)
    return folder / "store"


@pytest.fixture(scope="session")
def knnlm_model(server_store: Path) -> KNNLM:
    return KNNLM(server_store, lam=0.4)


@pytest.fixture
def predictor(knnlm_model: KNNLM) -> Iterator[Predictor]:
    opened = Predictor(knnlm_model)
    yield opened
    opened.close()


@contextmanager
def running(app: Any, patience: float = 30) -> Iterator[str]:
    """An app behind a server on a free port; the address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn_config(app, patience))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def options(**fields: Any) -> ServerOptions:
    """Those of a server on loopback."""
    return ServerOptions(**{"name": "tiny", "hosts": frozenset(LOOPBACK), **fields})


@pytest.fixture(scope="session")
def start(knnlm_model: KNNLM) -> Callable[..., Any]:
    """Starts a server with options of its own."""

    def started(**fields: Any) -> Any:
        chosen = options(**fields)
        return running(build_app(knnlm_model, chosen), chosen.patience)

    return started


@pytest.fixture(scope="session")
def url(start: Callable[..., Any]) -> Iterator[str]:
    """The address of a server that all tests share."""
    with start(capacity=Capacity(batch=4, waiting=64)) as address:
        yield address


@pytest.fixture(scope="session")
def client(url: str) -> openai.OpenAI:
    """The real client."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
