"""The OpenAPI schema: what FastAPI does not know of our answers."""

from typing import Any

from fastapi import FastAPI

from knnlm.integrations.server.guards import PROTECTED
from knnlm.integrations.server.schemas import ErrorResponse

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "The request cannot be answered"},
    401: {"model": ErrorResponse, "description": "A token is needed"},
    403: {"model": ErrorResponse, "description": "The request comes from another web page"},
    404: {"model": ErrorResponse, "description": "There is no such model or page"},
    408: {"model": ErrorResponse, "description": "The request came too slowly"},
    413: {"model": ErrorResponse, "description": "The request is too large"},
    415: {"model": ErrorResponse, "description": "The request is not JSON"},
    421: {"model": ErrorResponse, "description": "The request names another host"},
    429: {"model": ErrorResponse, "description": "Too many requests wait: try again later"},
    503: {"model": ErrorResponse, "description": "The server is shutting down"},
}
STREAM: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
TEXT: dict[str, Any] = {
    "description": "Prometheus' text format",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def answers(model: Any, also: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """The answers of a route.

    Args:
        model: What it answers with status 200.
        also: The same in other media types.
    """
    success: dict[str, Any] = {"model": model, "description": "The answer"}
    return {**ERRORS, 200: {**success, "content": also} if also else success}


def complete_schema(app: FastAPI, needs_token: bool) -> None:
    """Say what FastAPI does not: invalid requests get 400 and not 422, and some need a token."""
    schema = app.openapi()
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            if "200" in operation["responses"] and path == "/metrics":
                operation["responses"]["200"]["content"].pop("application/json", None)
            if needs_token and path.startswith(PROTECTED):
                operation["security"] = [{"token": []}]
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    if needs_token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
