"""What refusals look like: the status, and a body as OpenAI clients expect it."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from knnlm.errors import KnnlmError, UsageError
from knnlm.integrations.server.completions import NotFound
from knnlm.integrations.server.engine import ShuttingDown, TooBusy
from knnlm.integrations.server.guards import STOPPING, error_json
from knnlm.integrations.server.schemas import CompletionRequest, KNNField
from knnlm.progress import log

_SHOWN = 60  # characters of a request's field names in messages


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Refusals:
    """What clients are told: nothing of the machine that the server runs on.

    Args:
        places: Files and folders of this machine, and what clients know them as.
    """

    def __init__(self, places: Mapping[Path, str]) -> None:
        known = {
            str(spelled): name
            for path, name in places.items()
            for spelled in (path, path.absolute(), path.resolve())
            if len(spelled.parts) > 1  # else it says nothing of the machine
        }
        self._names = sorted(known.items(), key=lambda each: -len(each[0]))

    def of(self, request: Request, error: Exception) -> tuple[int, dict[str, Any]]:
        """The status and the body of a refusal; errors that are the server's own are logged."""
        status, body = _error_of(error)
        if status == 500:
            log.error(f"{request.url.path} failed: {type(error).__name__}", exc_info=error)
        told = body["error"]
        for path, name in self._names:
            told["message"] = told["message"].replace(path, name)
        return status, body


def _error_of(error: Exception) -> tuple[int, dict[str, Any]]:
    match error:
        case TooBusy():
            return 429, error_json("too many requests wait: try again later", 429, "too_busy")
        case ClientGone():
            return 499, error_json("the client has gone", 499)
        case ShuttingDown():
            return 503, error_json(STOPPING, 503, "shutting_down")
        case NotFound():
            return 404, error_json(str(error), 404, "model_not_found")
        case UsageError():
            return 400, error_json(str(error).replace("`", ""), 400, "bad_request")
    return 500, error_json("something went wrong in the server", 500)


def add_errors(app: FastAPI, refusals: Refusals) -> None:
    """Word every refusal as OpenAI clients expect it."""

    async def known(request: Request, error: Exception) -> Response:
        status, body = refusals.of(request, error)
        headers = {"retry-after": "1"} if status in (429, 503) else {}
        return Response(orjson.dumps(body), status, headers, media_type="application/json")

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        field, problem = _telling(error.errors())
        body = error_json(f"{field or 'the body'}: {problem}", 400, "bad_request", field)
        return Response(orjson.dumps(body), 400, media_type="application/json")

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        body = error_json(str(error.detail), error.status_code)
        return Response(
            orjson.dumps(body), error.status_code, error.headers, media_type="application/json"
        )

    for kind in (KnnlmError, TooBusy, ShuttingDown, ClientGone):
        app.add_exception_handler(kind, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, known)


def _telling(errors: Sequence[Any]) -> tuple[str, str]:
    """The field, and what is wrong with it. Where a field may be of several types, the error of the
    one that was meant: not that it is of another type."""
    error = max(errors, key=lambda each: (not each["type"].endswith("_type"), len(each["loc"])))
    fields = [str(part) for part in error["loc"] if part != "body"]
    if error["type"] == "extra_forbidden":
        *parents, name = fields
        return ".".join(fields)[:_SHOWN], _unknown(name, parents)
    named = [part for part in fields[:2] if part.isidentifier()]
    return ".".join(named)[:_SHOWN], str(error["msg"]).removeprefix("Value error, ")


def _unknown(name: str, parents: Sequence[str]) -> str:
    known = KNNField if parents[-1:] == ["knn"] else CompletionRequest
    fields = [field.alias or each for each, field in known.model_fields.items()]
    if close := get_close_matches(name[:_SHOWN], fields, 1):
        return f"there is no such field here, did you mean {close[0]}?"
    return "there is no such field here, see /openapi.json"
