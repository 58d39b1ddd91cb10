"""Opening a model: a folder, a hub name or a GGUF file → model, tokenizer, and what tells it from
any other.

Adapters (PEFT) are merged into the weights, so that everything after sees a plain model. Knows
nothing of what the model is used for."""

import importlib.util
import json
import re
import socket
import urllib.parse
import urllib.request
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
import xxhash

from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.models.quiet import no_transformers_bars
from knnlm.models.summed_embeddings import FIELD, load_widened, vocabulary
from knnlm.text.tokenizer import tokenizer_fingerprint, tokenizer_rules

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_COSMETIC = frozenset(
    {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "use_cache"}
)
_HUB_GGUF = re.compile(r"(?P<repo>[^/]+/[^/]+)/(?P<file>.+\.gguf)")


class LanguageModel(NamedTuple):
    """A causal LM ready to read text. `source` and `adapter` are what it was opened from."""

    model: Any
    tokenizer: Any
    source: str
    fingerprint: str
    tokenizer_fingerprint: str
    adapter: str | None = None

    @property
    def vocab_size(self) -> int:
        """Words that the output embedding predicts; every target must be below it."""
        return vocabulary(self.model.get_output_embeddings())

    @property
    def positions(self) -> int | None:
        """The longest input the model can read, where it has a limit."""
        found = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if found is None or found < 1 else int(found)

    def identity(self) -> dict[str, Any]:
        """What tells this model from any other; where it lies is no part of that, since folders
        move."""
        return {
            "class": type(self.model).__name__,
            "fingerprint": self.fingerprint,
            "precision": str(self.model.dtype).removeprefix("torch."),
            "tokenizer": self.tokenizer_fingerprint,
            "vocab_size": self.vocab_size,
            **tokenizer_rules(self.tokenizer),
        }


class _Place(NamedTuple):
    """What from_pretrained is given: a folder or hub name, and the file in it if it is a GGUF."""

    name: str
    gguf: str | None

    def options(self) -> dict[str, Any]:
        """Without a network, only what is cached is looked for: the hub's own retries take half a
        minute."""
        found: dict[str, Any] = {"trust_remote_code": False}  # else transformers asks, on stdin
        if self.gguf is not None:
            found["gguf_file"] = self.gguf
        return (
            found
            if Path(self.name).exists() or _hub_is_known()
            else {**found, "local_files_only": True}
        )


def load_model(
    source: str | Path,
    *,
    device: str | None = None,
    precision: str = "float32",
    adapter: str | Path | None = None,
) -> LanguageModel:
    """Open a model for reading only: a folder, a hub name, or a .gguf file (also
    NAME/REPO/FILE.gguf of the hub).

    `precision` is the type of its weights ("auto": as stored); `device` is CUDA where there is one;
    `adapter` is a PEFT folder or hub name."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    where = _device(device)
    place = _place(source)
    try:
        with no_transformers_bars():
            config = _config(place, source)
            tokenizer = _tokenizer(place)
            model = _weights(place, source, precision, config)
            model = model if adapter is None else _merged(model, adapter)
            model.eval().requires_grad_(False).to(where)
    except KnnlmError:
        raise
    except (
        Exception
    ) as error:  # foreign files: a wrong field, a missing library, a flipped bit may raise anything
        raise _cannot_open(source, error) from error
    _check_tokenizer(source, tokenizer, model)
    name = str(Path(source).resolve()) if Path(source).exists() else str(source)
    return LanguageModel(
        model,
        tokenizer,
        name,
        model_fingerprint(model),
        tokenizer_fingerprint(tokenizer),
        None
        if adapter is None
        else str(Path(adapter).resolve() if Path(adapter).exists() else adapter),
    )


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"unknown device '{name}': choose cpu, cuda or cuda:N") from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {name} is not on this machine ({torch.cuda.device_count()} CUDA devices): use "
            "cpu"
        )
    return found


def _place(source: str | Path) -> _Place:
    path = Path(source)
    if path.suffix == ".gguf":
        if missing := [m for m in ("gguf", "accelerate") if importlib.util.find_spec(m) is None]:
            raise KnnlmError(
                f"reading {source} needs {' and '.join(missing)}: run pip install 'knnlm[gguf]'"
            )
        on_hub = _HUB_GGUF.fullmatch(str(source))
        if path.is_file():
            return _Place(str(path.parent), path.name)
        if on_hub is None or path.is_absolute():
            raise KnnlmError(
                f"there is no file {source}: give the path of a .gguf file, or ORG/REPO/FILE.gguf"
            )
        return _Place(on_hub["repo"], on_hub["file"])
    if path.is_file():
        raise KnnlmError(f"{source} is a file: give the model's folder, a .gguf file or a hub name")
    if path.is_dir() and not (path / "config.json").is_file():
        hint = "give a folder written by 'knnlm train' or by save_pretrained"
        if (path / "training").is_dir():
            hint = "its training has not finished: run the same 'knnlm train' again"
        elif (path / "adapter_config.json").is_file():
            hint = "it is a PEFT adapter: give the base model, and this folder with --adapter"
        raise KnnlmError(f"{source} is not a model folder (no config.json): {hint}")
    return _Place(str(source), None)


def _hub_is_known() -> bool:
    """Whether the hub's name can be resolved here; behind a proxy only the proxy knows."""
    from huggingface_hub import constants

    if urllib.request.getproxies():
        return True
    try:
        socket.getaddrinfo(urllib.parse.urlparse(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True


def _config(place: _Place, source: str | Path) -> Any:
    """Of a model that can be read; None of a GGUF file: its header takes seconds, and its
    architectures are causal."""
    import transformers

    if place.gguf is not None:
        return None
    config = transformers.AutoConfig.from_pretrained(place.name, **place.options())
    if config.is_encoder_decoder:
        raise KnnlmError(
            f"{source} is a sequence-to-sequence model ({config.model_type}): give a causal LM"
        )
    if config.model_type == "knnlm":
        raise UsageError(
            f"{source} is a saved kNN-LM: give its base model, or open it with from_pretrained"
        )
    return config


def _tokenizer(place: _Place) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(place.name, **place.options())


def _weights(place: _Place, source: str | Path, precision: str, config: Any) -> Any:
    import transformers

    dtype = "auto" if precision == "auto" else getattr(torch, precision)
    if getattr(config, FIELD, 1) > 1 and Path(place.name).is_dir():
        return load_widened(place.name, config, dtype)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        place.name, dtype=dtype, output_loading_info=True, **place.options()
    )
    if missing := sorted(info["missing_keys"]):
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        raise KnnlmError(
            f"{source} lacks weights of a causal LM ({some}), which would be random: give a "
            "complete model"
        )
    return model


def _merged(model: Any, adapter: str | Path) -> Any:
    """The model with the adapter's changes in its weights."""
    if importlib.util.find_spec("peft") is None:
        raise KnnlmError("reading an adapter needs peft: run pip install 'knnlm[peft]'")
    import peft

    here = Path(adapter)
    if here.exists() and not (here / "adapter_config.json").is_file():
        raise KnnlmError(
            f"{adapter} is not a PEFT adapter (no adapter_config.json): give a folder that PEFT "
            "saved"
        )
    if not here.exists() and not _hub_is_known():
        raise KnnlmError(
            f"there is no folder {adapter}, and no network to look for it on the hub: check the "
            "path"
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="Found missing adapter keys"
            )  # refused just below
            adapted = peft.PeftModel.from_pretrained(model, str(adapter))
        wanted, given = (
            set(peft.get_peft_model_state_dict(adapted)),
            set(peft.load_peft_weights(str(adapter), "cpu")),
        )
    except Exception as error:  # foreign files, as above
        raise KnnlmError(
            f"cannot apply adapter {adapter} to this model ({_reason(error)}): was it made for it?"
        ) from error
    if wanted != given:
        some = min(wanted ^ given)
        raise KnnlmError(
            f"adapter {adapter} does not fit this model ({len(wanted - given)} weights missing, "
            f"{len(given - wanted)} "
            f"too many, such as {some}): was it made for it?"
        )
    if not hasattr(adapted, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type.value
        raise KnnlmError(
            f"adapter {adapter} ({kind}) cannot be merged into weights: use one of LoRA's kind"
        )
    return adapted.merge_and_unload()


def _check_tokenizer(source: str | Path, tokenizer: Any, model: Any) -> None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise KnnlmError(
            f"the tokenizer of {source} has no fast version (tokenizer.json): save it as a fast "
            "tokenizer"
        )
    if not backend.encode("a text").ids:
        raise KnnlmError(
            f"the tokenizer of {source} is missing or empty: restore its tokenizer.json"
        )
    head = model.get_output_embeddings()
    if head is None:
        raise KnnlmError(
            f"{source} ({type(model).__name__}) has no output embedding: give a causal LM"
        )
    if len(tokenizer) > vocabulary(head):
        raise KnnlmError(
            f"the tokenizer of {source} has {len(tokenizer)} entries but the model predicts only "
            f"{vocabulary(head)}: use the tokenizer that the model was trained with"
        )


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _cannot_open(source: str | Path, error: Exception) -> KnnlmError:
    found = "" if Path(source).exists() else "there is no such folder, and as a hub name: "
    return KnnlmError(
        f"cannot open model {source} ({found}{_reason(error)}): give a model folder, a .gguf file, "
        "or a hub name "
        "where there is a network"
    )


def model_fingerprint(model: Any) -> str:
    """128 bits over the configuration and the names, types and bytes of all weights."""
    config = {
        name: value for name, value in model.config.to_dict().items() if name not in _COSMETIC
    }
    digest = xxhash.xxh3_128(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()
