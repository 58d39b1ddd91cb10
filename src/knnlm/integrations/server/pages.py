"""The explorer's files, read once. Only those listed here are served: no path reaches the disk."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi.responses import Response

FOLDER = Path(__file__).parents[1] / "explorer"
EXPLORER = {
    "index.html": "text/html; charset=utf-8",
    "explorer.css": "text/css; charset=utf-8",
    "explorer.js": "text/javascript; charset=utf-8",
    "mixture.js": "text/javascript; charset=utf-8",
    "examples.js": "text/javascript; charset=utf-8",
}


def page_file(name: str) -> Callable[[], Awaitable[Response]]:
    """A route that returns one file."""
    content = (FOLDER / name).read_bytes()

    async def route() -> Response:
        return Response(content, media_type=EXPLORER[name], headers={"cache-control": "no-cache"})

    return route
