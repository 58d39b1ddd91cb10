"""Opening a model: a folder or a hub name → model, tokenizer, and the fingerprints that tell it from any other.

Knows nothing of what the model is used for.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
import xxhash

from knnlm.errors import KnnlmError
from knnlm.lm.quiet import no_library_bars
from knnlm.lm.tokenizer import tokenizer_fingerprint

_COSMETIC = frozenset({"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "use_cache"})


class LanguageModel(NamedTuple):
    """A causal LM ready to read text. `source` is what it was opened from."""

    model: Any
    tokenizer: Any
    source: str
    fingerprint: str
    tokenizer_fingerprint: str

    @property
    def vocab_size(self) -> int:
        """Rows of the output embedding; every target must be below it."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def positions(self) -> int | None:
        """The longest input the model can read, where it has a limit."""
        found = getattr(self.model.config, "max_position_embeddings", None)
        return None if found is None else int(found)

    def identity(self) -> dict[str, Any]:
        """What tells this model from any other; where it lies is no part of that, since folders move."""
        return {
            "class": type(self.model).__name__,
            "fingerprint": self.fingerprint,
            "tokenizer": self.tokenizer_fingerprint,
            "vocab_size": self.vocab_size,
            "bos": self.tokenizer.bos_token_id,
        }


def load_model(source: str | Path, device: str = "cpu") -> LanguageModel:
    """Open a folder or a hub name, in fp32, for reading only."""
    import transformers

    where = Path(source)
    if where.is_dir() and not (where / "config.json").is_file():
        hint = "its training has not finished: run the same 'knnlm train' again" if (where / "training").is_dir() else \
            "give a folder written by 'knnlm train' or by save_pretrained"  # fmt: skip
        raise KnnlmError(f"{source} is not a model folder (no config.json): {hint}")
    try:
        with no_library_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        found = "" if where.is_dir() else "there is no such folder, and as a hub name: "
        raise KnnlmError(
            f"cannot open model {source} ({found}{reason}): give a model folder, or a hub name where there is a network"
        ) from error
    if not tokenizer.backend_tokenizer.encode("a text").ids:
        raise KnnlmError(f"the tokenizer of {source} is missing or empty: restore its tokenizer.json")
    model.eval().requires_grad_(False).to(device)
    if len(tokenizer) > model.get_output_embeddings().weight.shape[0]:
        raise KnnlmError(
            f"the tokenizer of {source} has {len(tokenizer)} entries but the model predicts only "
            f"{model.get_output_embeddings().weight.shape[0]}: use the tokenizer that the model was trained with"
        )
    name = str(where.resolve()) if where.is_dir() else str(source)
    return LanguageModel(model, tokenizer, name, model_fingerprint(model), tokenizer_fingerprint(tokenizer))


def model_fingerprint(model: Any) -> str:
    """128 bits over the configuration and the names, types and bytes of all weights."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in _COSMETIC}
    digest = xxhash.xxh3_128(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()
