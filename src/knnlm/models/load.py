"""Opening a model: a folder, a hub name or a GGUF file → model, tokenizer, and the fingerprints
that tell it from any other."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import xxhash

from knnlm.argument_types import check_types
from knnlm.cpu import multiplies_faster
from knnlm.errors import KnnlmError, UsageError, first_line
from knnlm.models.adapters import merge_adapter
from knnlm.models.gguf import converted
from knnlm.models.location import ModelLocation, locate_model
from knnlm.models.saving import compare_with_record
from knnlm.models.summed_embeddings import CONFIG_FIELD, load_summed_embeddings, vocabulary_size
from knnlm.ranges import check_precision
from knnlm.text import tokenizer_fingerprint, tokenizer_rules

# fields of a configuration that change without changing what the model computes
_COSMETIC = frozenset(
    {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "use_cache"}
)


class LanguageModel(NamedTuple):
    """A causal language model that is ready to read text.

    Attributes:
        model: The transformers model; its output embedding is W_sm.
        tokenizer: Its fast tokenizer.
        source: The folder, file or hub name that it was opened from.
        fingerprint: 128 bits of its configuration and weights (`model_fingerprint`).
        tokenizer_fingerprint: 128 bits of its tokenizer.
        adapter: The PEFT adapter that is merged into its weights, if any.

    Example:
        >>> lm = load_model("gpt2")                                    # doctest: +SKIP
        >>> lm.tokenizer("The with statement").input_ids               # doctest: +SKIP
        >>> store = Datastore.build(lm, text="docs/", path="store")    # doctest: +SKIP
    """

    model: Any
    tokenizer: Any
    source: str
    fingerprint: str
    tokenizer_fingerprint: str
    adapter: str | None = None

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries the output embedding predicts."""
        return vocabulary_size(self.model.get_output_embeddings())

    @property
    def positions(self) -> int | None:
        """The longest input the model can read; None if it has no limit."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None or limit < 1 else int(limit)

    def identity(self) -> dict[str, Any]:
        """What tells this model from any other, for manifests; its path is not part of it."""
        return {
            "class": type(self.model).__name__,
            "fingerprint": self.fingerprint,
            "precision": str(self.model.dtype).removeprefix("torch."),
            "tokenizer": self.tokenizer_fingerprint,
            "vocab_size": self.vocab_size,
            **tokenizer_rules(self.tokenizer),
        }


@check_types
def load_model(
    source: str | Path,
    *,
    device: str | None = None,
    precision: str = "float32",
    adapter: str | Path | None = None,
) -> LanguageModel:
    """Open a causal language model, for reading text only: its weights are frozen.

    Args:
        source: A folder, a hub name, a .gguf file, or ORG/REPO/FILE.gguf of the hub.
        device: Such as "cpu" or "cuda:1". Without it, CUDA if the machine has it.
        precision: The type of the weights: "float32", "bfloat16", "float16", or "auto" for the
            type that they are stored in; on a CPU that is no faster in that type, float32.
        adapter: A PEFT adapter to merge into the weights: a folder or a hub name.

    Returns:
        The model with its tokenizer and the fingerprints of both.

    Raises:
        UsageError: There is no such precision or device, or the model is a saved kNN-LM.
        KnnlmError: The model cannot be opened, or is not a causal LM with a fast tokenizer.
        DamagedError: `train` made it, and a file is not what was written.

    Example:
        >>> lm = load_model("gpt2")        # doctest: +SKIP
        >>> lm.vocab_size, lm.positions    # doctest: +SKIP
        (50257, 1024)
    """
    check_precision(precision)
    chosen_device = _device(device)
    location = locate_model(source)
    if location.gguf_file is None and Path(location.name).is_dir():
        compare_with_record(Path(location.name))
    try:
        with hide_transformers_progress():
            model, tokenizer = _opened(location, source, precision)
            if precision == "auto" and not _pays(model.dtype, chosen_device):
                # opened again, not cast: a GGUF file was converted to the narrower type
                model, tokenizer = _opened(location, source, "float32")
            if adapter is not None:
                model = merge_adapter(model, adapter)
            model.eval().requires_grad_(False).to(chosen_device)
    except KnnlmError:
        raise
    except Exception as error:  # foreign files: a wrong field or a flipped bit may raise anything
        raise _cannot_open(source, error) from error
    _check_tokenizer(source, tokenizer, model)
    return LanguageModel(
        model,
        tokenizer,
        _resolved(source),
        model_fingerprint(model),
        tokenizer_fingerprint(tokenizer),
        None if adapter is None else _resolved(adapter),
    )


def model_fingerprint(model: Any) -> str:
    """128 bits, in hexadecimal, of the configuration and the names, types and bytes of all
    weights."""
    config = {
        name: value for name, value in model.config.to_dict().items() if name not in _COSMETIC
    }
    digest = xxhash.xxh3_128(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


@contextlib.contextmanager
def hide_transformers_progress() -> Iterator[None]:
    """Turn the progress bars of transformers off while it loads or saves, then back as before."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"unknown device '{name}': choose cpu, cuda or cuda:N") from error
    if device.type == "meta":  # PyTorch has it for shapes: nothing is computed there
        raise UsageError("nothing can be computed on device meta: choose cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {name} is not on this machine ({torch.cuda.device_count()} CUDA devices): use "
            "cpu"
        )
    return device


def _opened(location: ModelLocation, source: str | Path, precision: str) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    if location.gguf_file is not None:
        location = converted(location, precision)
    config = _config(location, source)
    tokenizer = _tokenizer(location)
    return _model(location, source, precision, config), tokenizer


def _pays(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether to compute in the type that weights are stored in, rather than in float32."""
    wide = dtype.itemsize >= torch.float32.itemsize
    return wide or device.type != "cpu" or multiplies_faster(dtype)


def _config(location: ModelLocation, source: str | Path) -> Any:
    """The configuration of a model that can be used."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(location.name, **location.options())
    if config.is_encoder_decoder:
        raise KnnlmError(
            f"{source} is a sequence-to-sequence model ({config.model_type}): give a causal LM"
        )
    if config.model_type == "knnlm":
        raise UsageError(
            f"{source} is a saved kNN-LM: give its base model, or open it with from_pretrained"
        )
    return config


def _tokenizer(location: ModelLocation) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(location.name, **location.options())


def _model(location: ModelLocation, source: str | Path, precision: str, config: Any) -> Any:
    import transformers

    dtype = "auto" if precision == "auto" else getattr(torch, precision)
    if getattr(config, CONFIG_FIELD, 1) > 1 and Path(location.name).is_dir():
        return load_summed_embeddings(location.name, config, dtype)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        location.name, dtype=dtype, output_loading_info=True, **location.options()
    )
    if missing := sorted(info["missing_keys"]):
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        raise KnnlmError(
            f"{source} lacks weights of a causal LM ({some}), which would be random: give a "
            "complete model"
        )
    return model


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
    if len(tokenizer) > vocabulary_size(head):
        raise KnnlmError(
            f"the tokenizer of {source} has {len(tokenizer)} entries but the model predicts only "
            f"{vocabulary_size(head)}: use the tokenizer that the model was trained with"
        )


def _cannot_open(source: str | Path, error: Exception) -> KnnlmError:
    missing = "" if Path(source).exists() else "there is no such folder, and as a hub name: "
    return KnnlmError(
        f"cannot open model {source} ({missing}{first_line(error)}): give a model folder, a .gguf "
        "file, or a hub name where there is a network"
    )


def _resolved(source: str | Path) -> str:
    """An absolute path, so that it is found from any folder; a hub name as it is."""
    path = Path(source)
    return str(path.resolve()) if path.exists() else str(source)
