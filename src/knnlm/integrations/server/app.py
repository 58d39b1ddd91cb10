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
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from knnlm.api import KNNLM
from knnlm.errors import UsageError
from knnlm.files import finite
from knnlm.integrations.server.answer_schemas import (
    ChatAnswer,
    CompletionAnswer,
    HealthAnswer,
    InfoAnswer,
    Model,
    ModelsAnswer,
    PassagesAnswer,
    ScoreAnswer,
)
from knnlm.integrations.server.answers import answer_chat, answer_completion
from knnlm.integrations.server.completions import NotFound, Served
from knnlm.integrations.server.documenting import ERRORS, STREAM, TEXT, answers, complete_schema
from knnlm.integrations.server.engine import Capacity, Engine, ShuttingDown
from knnlm.integrations.server.errors import Refusals, add_errors
from knnlm.integrations.server.guards import LOOPBACK, Guard
from knnlm.integrations.server.metrics import Metrics
from knnlm.integrations.server.pages import explorer_files, page_file
from knnlm.integrations.server.predictor import Mixing, Predictor
from knnlm.integrations.server.responding import respond, watched
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


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a server behaves.

    Attributes:
        name: The model's name in the API.
        token: The bearer token; None asks for none.
        hosts: Names in the Host header that are answered, besides addresses.
        capacity: How much is done at once.
        most_bytes: Of a request.
        most_scored: Tokens of a text that /api/score answers about.
        most_votes: Votes that it returns; each takes about 60 bytes.
        patience: Seconds for a client to send its request, and to take each part of the answer.
        grace: Seconds for what has begun when the server stops; what is left then gets 503.
        log_texts: Whether prompts and texts may be in the log.
    """

    name: str
    token: str | None = None
    hosts: frozenset[str] = frozenset(LOOPBACK)
    capacity: Capacity = field(default_factory=Capacity)
    most_bytes: int = 1 << 20
    most_scored: int = 2048
    most_votes: int = 1 << 20
    patience: float = 30.0
    grace: int = 20
    log_texts: bool = False


@dataclass(frozen=True)
class Server:
    """An ASGI app.

    Attributes:
        answer: The app.
        stop_taking: Refuses requests from now on; those that were taken are answered.
        close: The same; what is left when the grace has passed gets 503. Returns after that.
    """

    answer: Callable[..., Awaitable[None]]
    stop_taking: Callable[[], None]
    close: Callable[[], object]

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
        await asyncio.to_thread(engine.close, options.grace)
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
    app.state.refusals = _refusals(served)
    add_errors(app, app.state.refusals)
    complete_schema(app, options.token is not None)
    guard = Guard(
        app=app,
        token=options.token,
        hosts=options.hosts,
        most_bytes=options.most_bytes,
        patience=options.patience,
    )
    return Server(
        metrics.middleware(guard), engine.stop_taking, partial(engine.close, options.grace)
    )


def _add_routes(app: FastAPI, served: Served, options: ServerOptions) -> frozenset[str]:
    _add_openai(app, served, options)
    _add_scoring(app, served, options)
    _add_information(app, served, options)
    for name in explorer_files():
        _add_page(app, f"/{name}", name)
    _add_page(app, "/", "index.html")
    return frozenset(route.path for route in app.routes if hasattr(route, "path"))


def _add_page(app: FastAPI, path: str, name: str) -> None:
    app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)(page_file(name))


def _add_openai(app: FastAPI, served: Served, options: ServerOptions) -> None:
    began = int(time.time())

    def count(read: int, written: int) -> None:
        app.state.metrics.count_tokens(read, written)

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": began, "owned_by": "knnlm"}

    @app.post("/v1/completions", responses=answers(CompletionAnswer, STREAM))
    async def completions(request: Request, body: CompletionRequest) -> Response:
        """Continue a text."""
        if options.log_texts:
            log.info(f"completion of {body.prompt!r}")
        return await respond(request, lambda: answer_completion(served, body), body.stream, count)

    @app.post("/v1/chat/completions", responses=answers(ChatAnswer, STREAM))
    async def chat(request: Request, body: ChatRequest) -> Response:
        """Answer a conversation."""
        if options.log_texts:
            log.info(f"answer to {[message.text for message in body.messages]!r}")
        return await respond(request, lambda: answer_chat(served, body), body.stream, count)

    @app.get("/v1/models", responses=answers(ModelsAnswer))
    async def models() -> dict[str, Any]:
        """What can be asked for as `model`."""
        return {"object": "list", "data": [described(name) for name in served.names]}

    @app.get("/v1/models/{name:path}", responses=answers(Model))
    async def model(name: str) -> dict[str, Any]:
        """One of them."""
        if name not in served.names:
            raise NotFound(f"there is no model {name[:200]!r} here: see /v1/models")
        return described(name)


def _add_scoring(app: FastAPI, served: Served, options: ServerOptions) -> None:
    predictor, engine = served.predictor, served.engine

    @app.post("/api/score", responses=answers(ScoreAnswer))
    async def score_text(request: Request, body: ScoreRequest) -> Response:
        """A text token by token: p_LM, p_kNN, P, and the neighbors that voted."""
        if (body.text is None) == (body.tokens is None):
            raise UsageError("give either a text or its tokens")
        mixing = served.mixing(None, body.knn)
        tokens = await asyncio.to_thread(_tokens, predictor, body)
        if len(tokens) - 1 > options.most_scored:
            raise UsageError(
                f"the text has {len(tokens):,} tokens, and {options.most_scored:,} are scored at "
                "most: shorten it"
            )
        if body.start >= len(tokens):
            raise UsageError("there is nothing to score: give a text of two tokens or more")
        if body.votes:
            _check_votes(len(tokens) - body.start, mixing, options.most_votes)
        if options.log_texts:
            log.info(f"score of {body.text if body.text is not None else body.tokens!r}")
        asked = Scoring(body.start, body.neighbors, body.top, body.votes)
        future = engine.call(score(predictor, tokens, mixing, asked))
        async with watched(request):
            return Response(await asyncio.wrap_future(future), media_type="application/json")

    @app.post("/api/entries", responses=answers(PassagesAnswer))
    async def entries(body: EntriesRequest) -> dict[str, Any]:
        """The passages of some entries of the datastore."""
        if max(body.entries) >= predictor.entries.count:
            raise UsageError(f"the datastore has {predictor.entries.count:,} entries, from 0 on")
        described = [passage(predictor.entries, predictor.tokenizer, e) for e in body.entries]
        return {"entries": described}


def _add_information(app: FastAPI, served: Served, options: ServerOptions) -> None:
    predictor, engine = served.predictor, served.engine

    @app.get("/api/info", responses=answers(InfoAnswer))
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

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", responses={200: {"model": HealthAnswer}, 503: ERRORS[503]})
    async def healthz() -> Response:
        """Whether the server takes requests."""
        if engine.closing:
            raise ShuttingDown
        return Response('{"status":"ok"}', media_type="application/json")

    @app.get("/metrics", responses={**ERRORS, 200: TEXT})
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(app.state.metrics.page(), media_type="text/plain; version=0.0.4")


def _refusals(served: Served) -> Refusals:
    entries = served.predictor.entries
    model = Path(entries.model_source)
    places = {model: model.name} if model.exists() else {}
    return Refusals({**places, entries.path: served.name})


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


def _check_votes(count: int, mixing: Mixing, most: int) -> None:
    if mixing.k is not None and count * mixing.k > most:
        raise UsageError(
            f"{count:,} tokens with {mixing.k:,} votes each are too many to return: score at most "
            f"{most // mixing.k:,} tokens, or give a smaller k"
        )


def _ends(predictor: Predictor) -> frozenset[int]:
    ends = predictor.lm.model.generation_config.eos_token_id
    if ends is None:
        return frozenset()
    return frozenset(ends if isinstance(ends, list) else [ends])
