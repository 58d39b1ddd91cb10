"""knnlm serve, knnlm explore"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knnlm.cli.groups import ModelOptions, SettingOptions
from knnlm.cli.options import Json, StorePath, show
from knnlm.errors import UsageError
from knnlm.progress import log

if TYPE_CHECKING:
    from knnlm.api import KNNLM
    from knnlm.integrations.server.run import Address

_DEMO_STORE = Path("demo/store")


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, who may ask, and how much."""

    host: Annotated[str, typer.Option("--host", help="Interface to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", help="Port; 0 takes a free one.")] = 8017
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with a bearer token that clients must send. Needed to serve other machines.",
        ),
    ] = None
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines in without a token.")
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Also answer requests to this host name, as of a proxy in front (repeatable).",
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", help="The model's name; by default the datastore's.")
    ] = None
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=256, help="Texts that are continued at once.")
    ] = 16
    waiting: Annotated[
        int,
        typer.Option(
            "--waiting", min=0, max=10_000, help="Requests that may wait; further ones get 429."
        ),
    ] = 64
    log_texts: Annotated[
        bool,
        typer.Option(
            "--log-texts", help="Write prompts to the log; without it they are not logged."
        ),
    ] = False

    def address(self) -> "Address":
        """Where to listen, and who may ask."""
        from knnlm.integrations.server.run import Address

        return Address(
            host=self.host,
            port=self.port,
            token_file=self.token_file,
            public=self.public,
            allow_host=tuple(self.allow_host or ()),
        )

    def run(self, knnlm: "KNNLM", as_json: bool) -> None:
        """Serve until interrupted."""
        from knnlm.integrations.server.engine import Capacity
        from knnlm.integrations.server.run import serve

        address = self.address()

        def ready(url: str) -> None:
            show(as_json, {"url": url, "openai": f"{url}/v1"}, _lines(url) if not as_json else [])

        try:
            serve(
                knnlm,
                address,
                name=self.name,
                log_texts=self.log_texts,
                on_ready=ready,
                capacity=Capacity(batch=self.batch, waiting=self.waiting),
            )
        except KeyboardInterrupt:  # how a server is meant to be stopped
            log.info("stopped")


def serve(
    store: StorePath,
    server: ServerOptions,
    settings: SettingOptions,
    model: ModelOptions,
    json: Json = False,
) -> None:
    """Serve a kNN-LM: the OpenAI API and the explorer.

    It listens on this machine only, unless told otherwise. Ctrl-C stops it.

    Example: knnlm serve store --port 8017
    """
    _check(server)
    server.run(model.open(store, settings, announce=True), json)


def explore(
    server: ServerOptions,
    settings: SettingOptions,
    model: ModelOptions,
    store: Annotated[
        Path | None,
        typer.Argument(metavar="STORE", help="Folder made by knnlm build; by default the demo's."),
    ] = None,
    json: Json = False,
) -> None:
    """Look at what each token of a text retrieves, in a browser.

    Without STORE the demo's datastore is opened, and built first if it is not there.

    Example: knnlm explore store
    """
    _check(server)
    if store is None:
        store = _DEMO_STORE
        if not (store / "tuned.json").is_file():
            from knnlm.experiments import run_demo

            run_demo(store.parent)
    server.run(model.open(store, settings, announce=True), json)


def _check(server: ServerOptions) -> None:
    """Tell mistakes before the model is opened."""
    if not 0 <= server.port <= 65535:
        raise UsageError(f"there is no port {server.port}: choose 1 to 65535, or 0 for a free one")
    server.address().token()


def _lines(url: str) -> list[str]:
    return [
        f"explorer     {url}",
        f"OpenAI API   {url}/v1",
    ]
