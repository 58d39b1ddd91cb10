"""From a datastore to a running server, and back."""

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knnlm.api import KNNLM
from knnlm.defaults import MANY_ENTRIES
from knnlm.errors import KnnlmError, UsageError
from knnlm.integrations.server.guards import LOOPBACK
from knnlm.progress import log, log_result
from knnlm.search import list_indexes

_LAST_ANSWERS = 2  # seconds for the answers of what was given up to be sent
_MISSING = "serving needs {}: run pip install fastapi uvicorn prometheus-client orjson"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and who may ask.

    Attributes:
        host: The interface.
        port: The port; 0 takes a free one.
        token_file: A file with the bearer token and nothing else.
        public: Whether other machines may ask without a token.
        allow_host: Further names that the server answers to: its own, or a proxy's.
    """

    host: str = "127.0.0.1"
    port: int = 8017
    token_file: Path | None = None
    public: bool = False
    allow_host: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    @property
    def names(self) -> frozenset[str]:
        """What the server answers to, besides addresses."""
        return frozenset(name.lower() for name in (*LOOPBACK, *self.allow_host))

    def token(self) -> str | None:
        """The bearer token, if there is one.

        Raises:
            UsageError: The file has none, or one is needed.
        """
        if self.token_file is None:
            if not self.is_loopback and not self.public:
                raise UsageError(
                    f"{self.host} can be reached from other machines: give `token_file`, or "
                    "`public` to let everyone in"
                )
            return None
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.token_file} cannot be read: give a text file") from error
        if len(token) < 16 or not token.isascii() or any(c.isspace() for c in token):
            raise UsageError(
                f"{self.token_file} has no usable token: write 16 or more letters or digits into it"
            )
        return token


def serve(
    knnlm: KNNLM,
    address: Address,
    *,
    name: str | None = None,
    log_texts: bool = False,
    on_ready: Callable[[str], None] | None = None,
    **limits: Any,
) -> None:
    """Serve a model until it is interrupted; texts that are being continued are finished.

    Args:
        knnlm: The model, with tuned settings.
        address: Where to listen.
        name: The model's name in the API; by default the datastore's.
        log_texts: Whether prompts may be in the log.
        on_ready: Called with the address when the server answers.
        **limits: `capacity`, `most_bytes`, `most_scored` and `grace` of `ServerOptions`.

    Raises:
        KnnlmError: A package is missing, or the port is taken.
        UsageError: A token is needed and not given.
    """
    token = address.token()
    try:
        import uvicorn

        from knnlm.integrations.server.app import ServerOptions, build_app
        from knnlm.integrations.server.connections import uvicorn_config
    except ImportError as error:
        raise KnnlmError(_MISSING.format(error.name)) from error
    _advise(knnlm)
    listening = _listen(address)
    with closing(listening):
        options = ServerOptions(
            name=name or Path(knnlm.store.entries.path).resolve().name,
            token=token,
            hosts=address.names,
            log_texts=log_texts,
            **limits,
        )
        app = build_app(knnlm, options)
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}"
        config = uvicorn_config(app, options.patience, options.grace + _LAST_ANSWERS)
        server = _stopping(uvicorn.Server(config), app.close)
        log_result(f"serving {options.name} at {url} (Ctrl-C stops it)")
        if on_ready is not None:
            on_ready(url)
        server.run(sockets=[listening])


def _stopping(server: Any, close: Callable[[], object]) -> Any:
    """A server that refuses requests from the first signal on, while others are finished."""
    handle = server.handle_exit

    def handle_exit(*signal: Any) -> None:
        # not here: a handler of signals may interrupt whoever holds the engine's lock
        threading.Thread(target=close, daemon=True).start()
        handle(*signal)

    server.handle_exit = handle_exit
    return server


def _advise(knnlm: KNNLM) -> None:
    """Say that exact search takes long for every token, where it does and need not."""
    retrieval, entries = knnlm.settings.retrieval, knnlm.store.entries
    if retrieval is None or not retrieval.exact or entries.count < MANY_ENTRIES:
        return
    wanted = f"{retrieval.key}-{retrieval.metric}-"
    faster = [name for name in list_indexes(entries) if name.startswith(wanted)]
    advice = f"`index` {faster[0]} is faster" if faster else "`Datastore.build_index` helps"
    log.warning(f"note: each new token is compared with {entries.count:,} entries; {advice}")


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen()  # who asks before the server answers waits, and is not refused
    except (OSError, OverflowError) as error:
        listening.close()
        raise KnnlmError(
            f"cannot listen on {address.host}:{address.port} ({error}): choose another `port`"
        ) from error
    return listening
