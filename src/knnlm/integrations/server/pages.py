"""The explorer's files, read once. Only those listed here are served: no path reaches the disk."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi.responses import Response

FOLDER = Path(__file__).parents[1] / "explorer"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def explorer_files() -> list[str]:
    """The names of all files of the explorer, below its folder."""
    files = (file for file in FOLDER.rglob("*") if file.suffix in _TYPES)
    return sorted(file.relative_to(FOLDER).as_posix() for file in files)


def page_file(name: str) -> Callable[[], Awaitable[Response]]:
    """A route that returns one file."""
    file = FOLDER / name
    content, kind = file.read_bytes(), _TYPES[file.suffix]

    async def route() -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return route
