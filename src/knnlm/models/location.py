"""Where a model's files are: a folder, a GGUF file, or a name on the Hugging Face hub."""

import importlib.util
import re
import socket
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from knnlm.errors import KnnlmError

_GGUF_ON_HUB = re.compile(r"(?P<repo>[^/]+/[^/]+)/(?P<file>.+\.gguf)")


class ModelLocation(NamedTuple):
    """What `from_pretrained` is given: a folder or hub name, and the file in it if it is GGUF."""

    name: str
    gguf_file: str | None

    def options(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` besides the name.

        Without a network only the local cache is searched: the hub's retries take half a minute.
        """
        options: dict[str, Any] = {"trust_remote_code": False}  # otherwise it asks, on stdin
        if self.gguf_file is not None:
            options["gguf_file"] = self.gguf_file
        if not Path(self.name).exists() and not hub_is_reachable():
            options["local_files_only"] = True
        return options


def locate_model(source: str | Path) -> ModelLocation:
    """Find the files of a model; a name that is no path is taken for a hub name.

    Raises:
        KnnlmError: There is a file or folder of that name, but it is no model.
    """
    path = Path(source)
    if path.suffix == ".gguf":
        return _locate_gguf(source)
    if path.is_file():
        raise KnnlmError(f"{source} is a file: give the model's folder, a .gguf file or a hub name")
    if path.is_dir() and not (path / "config.json").is_file():
        hint = "give a folder written by `train` or by save_pretrained"
        if (path / "training").is_dir():
            hint = "its training has not finished: run the same `train` again"
        elif (path / "adapter_config.json").is_file():
            hint = "it is a PEFT adapter: give the base model, and this folder as its adapter"
        raise KnnlmError(f"{source} is not a model folder (no config.json): {hint}")
    return ModelLocation(str(source), None)


def _locate_gguf(source: str | Path) -> ModelLocation:
    if missing := [m for m in ("gguf", "accelerate") if importlib.util.find_spec(m) is None]:
        raise KnnlmError(
            f"reading {source} needs {' and '.join(missing)}: run pip install {' '.join(missing)}"
        )
    path = Path(source)
    if path.is_file():
        return ModelLocation(str(path.parent), path.name)
    on_hub = _GGUF_ON_HUB.fullmatch(str(source))
    if on_hub is None or path.is_absolute():
        raise KnnlmError(
            f"there is no file {source}: give the path of a .gguf file, or ORG/REPO/FILE.gguf"
        )
    return ModelLocation(on_hub["repo"], on_hub["file"])


def hub_is_reachable() -> bool:
    """Whether the hub's name can be resolved here; behind a proxy only the proxy knows."""
    from huggingface_hub import constants

    if urllib.request.getproxies():
        return True
    try:
        socket.getaddrinfo(urllib.parse.urlparse(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True
