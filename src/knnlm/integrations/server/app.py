"""The routes of `knnlm serve`, as a FastAPI app.

/v1/completions, /v1/chat/completions, /v1/models    as OpenAI clients know them
/api/score, /api/entries, /api/info                  a text token by token; what is served
/healthz, /metrics                                   for whoever operates it
/                                                    the explorer (explorer/)
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from knnlm.api import KNNLM
from knnlm.errors import KnnlmError, UsageError
from knnlm.files import finite
from knnlm.integrations.server.answers import Answering, answer_chat, answer_completion, sse
from knnlm.integrations.server.completions import Served
from knnlm.integrations.server.engine import Capacity, Engine, ShuttingDown, TooBusy
from knnlm.integrations.server.errors import (
    ERRORS,
    ClientGone,
    add_errors,
    document_errors,
    error_of,
)
from knnlm.integrations.server.guards import Guard
from knnlm.integrations.server.metrics import Metrics
from knnlm.integrations.server.pages import explorer_files, page_file
from knnlm.integrations.server.predictor import Predictor
from knnlm.integrations.server.schemas import (
    ChatRequest,
    CompletionRequest,
    EntriesRequest,
    ScoreRequest,
)
from knnlm.integrations.server.scoring import Scoring, score, settings_json
from knnlm.integrations.server.sources import passage
from knnlm.progress import log
from knnlm.version import __version__

GRACE = 20  # seconds for texts that are being continued when the server stops


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a server behaves.

    Attributes:
        name: The model's name in the API.
        token: The bearer token; None asks for none.
        hosts: Names in the Host header that are answered; None answers all.
        capacity: How much is done at once.
        most_bytes: Of a request.
        most_scored: Tokens of a text that /api/score answers about.
        patience: Seconds for a client to send its request, and to take each part of the answer.
        log_texts: Whether prompts and texts may be in the log.
    """

    name: str
    token: str | None = None
    hosts: frozenset[str] | None = None
    capacity: Capacity = field(default_factory=Capacity)
    most_bytes: int = 1 << 20
    most_scored: int = 2048
    patience: float = 30.0
    log_texts: bool = False


@dataclass(frozen=True)
class Server:
    """An ASGI app.

    Attributes:
        answer: The app.
        stop_taking: Refuses requests from now on; those that were taken are answered.
    """

    answer: Callable[..., Awaitable[None]]
    stop_taking: Callable[[], None]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        await self.answer(scope, receive, send)


def build_app(knnlm: KNNLM, options: ServerOptions) -> Server:
    """The server of a kNN-LM, as an ASGI app.

    Args:
        knnlm: The model, with tuned settings.
        options: How the server behaves.
    """
    predictor = Predictor(knnlm)
    engine = Engine(predictor, options.capacity)
    served = Served(options.name, predictor, engine, _ends(predictor))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(engine.close, GRACE)
        predictor.close()

    app = FastAPI(
        title="knnlm",
        version=__version__,
        summary="A nearest-neighbor language model: completions, and where each token comes from.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    metrics = Metrics(engine, _add_routes(app, served, options))
    app.state.metrics, app.state.engine = metrics, engine
    add_errors(app)
    document_errors(app)
    guard = Guard(
        app=app,
        token=options.token,
        hosts=options.hosts,
        most_bytes=options.most_bytes,
        patience=options.patience,
    )
    return Server(metrics.middleware(guard), engine.stop_taking)


def _add_routes(app: FastAPI, served: Served, options: ServerOptions) -> frozenset[str]:
    _add_openai(app, served, options)
    _add_scoring(app, served, options)
    _add_information(app, served, options)
    for name in explorer_files():
        app.get(f"/{name}", include_in_schema=False)(page_file(name))
    app.get("/", include_in_schema=False)(page_file("index.html"))
    return frozenset(route.path for route in app.routes if hasattr(route, "path"))


def _add_openai(app: FastAPI, served: Served, options: ServerOptions) -> None:
    began = int(time.time())

    @app.post("/v1/completions", responses=ERRORS)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        """Continue a text."""
        if options.log_texts:
            log.info(f"completion of {body.prompt!r}")
        return await _answer(app, request, lambda: answer_completion(served, body), body.stream)

    @app.post("/v1/chat/completions", responses=ERRORS)
    async def chat(request: Request, body: ChatRequest) -> Response:
        """Answer a conversation."""
        if options.log_texts:
            log.info(f"answer to {[message.text for message in body.messages]!r}")
        return await _answer(app, request, lambda: answer_chat(served, body), body.stream)

    @app.get("/v1/models", responses=ERRORS)
    async def models() -> dict[str, Any]:
        """What can be asked for as `model`."""
        return {
            "object": "list",
            "data": [
                {"id": name, "object": "model", "created": began, "owned_by": "knnlm"}
                for name in served.names
            ],
        }


def _add_scoring(app: FastAPI, served: Served, options: ServerOptions) -> None:
    predictor, engine = served.predictor, served.engine

    @app.post("/api/score", responses=ERRORS)
    async def score_text(request: Request, body: ScoreRequest) -> Response:
        """A text token by token: p_LM, p_kNN, P, and the neighbors that voted."""
        if (body.text is None) == (body.tokens is None):
            raise UsageError("give either a text or its tokens")
        mixing = served.mixing(None, body.knn)
        tokens = _tokens(predictor, body)
        if len(tokens) - 1 > options.most_scored:
            raise UsageError(
                f"the text has {len(tokens):,} tokens, and {options.most_scored:,} are scored at "
                "most: shorten it"
            )
        if body.start >= len(tokens):
            raise UsageError("there is nothing to score: give a text of two tokens or more")
        if options.log_texts:
            log.info(f"score of {body.text if body.text is not None else body.tokens!r}")
        asked = Scoring(body.start, body.neighbors, body.top, body.votes)
        future = engine.call(score(predictor, tokens, mixing, asked))
        async with _watched(request):
            return Response(await asyncio.wrap_future(future), media_type="application/json")

    @app.post("/api/entries", responses=ERRORS)
    async def entries(body: EntriesRequest) -> dict[str, Any]:
        """The passages of some entries of the datastore."""
        if max(body.entries) >= predictor.entries.count:
            raise UsageError(f"the datastore has {predictor.entries.count:,} entries, from 0 on")
        described = [passage(predictor.entries, predictor.tokenizer, e) for e in body.entries]
        return {"entries": described}


def _add_information(app: FastAPI, served: Served, options: ServerOptions) -> None:
    predictor, engine = served.predictor, served.engine

    @app.get("/api/info", responses=ERRORS)
    async def info() -> dict[str, Any]:
        """What is served."""
        store = predictor.entries
        return finite(
            {
                "version": __version__,
                "model": served.name,
                "base_model": _base_model(predictor),
                "entries": store.count,
                "documents": len(store.documents),
                "keys": list(store.keys),
                "vocabulary": store.vocab_size,
                "settings": settings_json(predictor.default),
                "metric": predictor.metric,
                "components": predictor.components,
                "chat": bool(getattr(predictor.tokenizer, "chat_template", None)),
                "context": predictor.longest,
                "most_scored": options.most_scored,
            }
        )

    @app.get("/healthz", responses={503: ERRORS[503]})
    async def healthz() -> Response:
        """Whether the server takes requests."""
        if engine.closing:
            raise ShuttingDown
        return Response('{"status":"ok"}', media_type="application/json")

    @app.get("/metrics", responses=ERRORS)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(app.state.metrics.page(), media_type="text/plain; version=0.0.4")


def _base_model(predictor: Predictor) -> dict[str, Any]:
    """The LM by its name, without the folders it is in, its architecture and its size."""
    source, model = predictor.entries.model_source, predictor.lm.model
    return {
        "name": PurePath(source).name,
        "architecture": model.config.model_type,
        "parameters": model.num_parameters(),
    }


def _tokens(predictor: Predictor, body: ScoreRequest) -> list[int]:
    if body.text is not None:
        return predictor.encode(body.text)
    assert body.tokens is not None
    if max(body.tokens) >= predictor.lm.vocab_size:
        raise UsageError(f"token {max(body.tokens)} is outside the model's vocabulary")
    return body.tokens


async def _answer(
    app: FastAPI,
    request: Request,
    begin: Callable[[], Awaitable[Answering]],
    stream: bool,
) -> Response:
    async with _watched(request):
        answering = await begin()
    if stream:
        return StreamingResponse(_until_the_end(app, answering), media_type="text/event-stream")
    try:
        async with _watched(request):
            whole = await answering.whole()
    finally:
        answering.close()
    app.state.metrics.count_tokens(
        whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]
    )
    return Response(orjson.dumps(whole), media_type="application/json")


async def _until_the_end(app: FastAPI, answering: Answering) -> AsyncIterator[bytes]:
    """A stream; when the client goes away, its texts go too."""
    try:
        async for event in answering.stream():
            yield event
        used = answering.usage()
        app.state.metrics.count_tokens(used["prompt_tokens"], used["completion_tokens"])
    except (KnnlmError, TooBusy, ShuttingDown) as error:
        status, body = error_of(error)
        yield sse({**body, "status": status})
    finally:
        answering.close()


@asynccontextmanager
async def _watched(request: Request) -> AsyncIterator[None]:
    """Give up what is awaited as soon as its client has gone.

    Raises:
        ClientGone: It has.
    """
    task, gone = asyncio.current_task(), False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        if task is not None:
            task.uncancel()
        raise ClientGone from None
    finally:
        watching.cancel()


def _ends(predictor: Predictor) -> frozenset[int]:
    ends = predictor.lm.model.generation_config.eos_token_id
    if ends is None:
        return frozenset()
    return frozenset(ends if isinstance(ends, list) else [ends])
