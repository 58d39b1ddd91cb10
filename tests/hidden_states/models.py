"""Causal LMs of every family, tiny and random, all reading the same few tokens."""

from collections.abc import Callable
from typing import Any

import torch

from knnlm.models.presets import SMOKE, new_model

VOCABULARY = 300
WIDTH = 32
_COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": None}
_SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    **_COMMON,
}
_OLD_SIZES = {"n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 64, **_COMMON}
_FALCON = {
    name: v
    for name, v in _SIZES.items()
    if name not in ("intermediate_size", "num_key_value_heads")
}


def make(name: str, **changes: Any) -> Any:
    """transformers' {name}Config and its causal LM, with our sizes."""
    import transformers

    head = "LMHeadModel" if name in ("GPT2", "Bert") else "ForCausalLM"
    kind = getattr(transformers, name.removesuffix("Text") + head)
    config = getattr(transformers, name + "Config")
    return _seeded(lambda: kind(config(**{**_SIZES, **changes})))


def _old(name: str, **changes: Any) -> Any:
    import transformers

    head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    config = getattr(transformers, name + "Config")(**{**_OLD_SIZES, **changes})
    return _seeded(lambda: getattr(transformers, name + head)(config))


def opt(**changes: Any) -> Any:
    """OPT as the presets make it, or changed."""
    model = _seeded(lambda: new_model(SMOKE, VOCABULARY, 0))
    if not changes:
        return model
    import transformers

    return _seeded(
        lambda: transformers.OPTForCausalLM(
            transformers.OPTConfig(**{**model.config.to_dict(), **changes})
        )
    )


def gpt2() -> Any:
    """GPT-2."""
    return _old("GPT2")


def gpt_neox(parallel: bool = True) -> Any:
    """GPT-NeoX, whose attention and feed-forward layer read the same state unless told
    otherwise."""
    return make("GPTNeoX", use_parallel_residual=parallel, num_key_value_heads=4)


def granite(logits_scaling: float) -> Any:
    """Granite, which divides its logits."""
    return make("Granite", logits_scaling=logits_scaling)


def cohere(logit_scale: float) -> Any:
    """Cohere, which multiplies its logits."""
    return make("Cohere", logit_scale=logit_scale)


def gemma2(softcap: float | None) -> Any:
    """Gemma 2, which caps its logits; ours are small, so a cap shows only on larger states."""
    return make("Gemma2", final_logit_softcapping=softcap, head_dim=8)


def falcon(**changes: Any) -> Any:
    """Falcon; its first models unless told otherwise."""
    import transformers

    return _seeded(
        lambda: transformers.FalconForCausalLM(transformers.FalconConfig(**{**_FALCON, **changes}))
    )


FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "gpt_bigcode": lambda: _old("GPTBigCode"),
    "opt": opt,
    "llama": lambda: make("Llama"),
    "mistral": lambda: make("Mistral", sliding_window=8),
    "mixtral": lambda: make("Mixtral", num_local_experts=4),
    "smollm3": lambda: make("SmolLM3"),
    "qwen2": lambda: make("Qwen2"),
    "qwen3": lambda: make("Qwen3", head_dim=8),
    "granite": lambda: granite(8.0),
    "gemma": lambda: make("Gemma", head_dim=8),
    "gemma2": lambda: gemma2(5.0),
    "gemma3_text": lambda: make(
        "Gemma3Text", head_dim=8, sliding_window=8, final_logit_softcapping=None
    ),
    "olmo2": lambda: make("Olmo2"),
    "gpt_neox": gpt_neox,
    "gptj": lambda: _old("GPTJ", rotary_dim=4),
    "phi": lambda: make("Phi"),
    "cohere": lambda: cohere(0.25),
    "falcon": falcon,
}
VARIANTS: dict[str, Callable[[], Any]] = {
    **FAMILIES,
    "gpt_neox sequential": lambda: gpt_neox(parallel=False),
    "falcon sequential": lambda: falcon(parallel_attn=False),
    "falcon two norms": lambda: falcon(new_decoder_architecture=True, num_kv_heads=2),
    "falcon new, one norm": lambda: falcon(
        new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1
    ),
}


def some_tokens(rows: int = 3, length: int = 17) -> torch.Tensor:
    """Token ids that are not the reader's own probe."""
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(5))


def _seeded(make: Any) -> Any:
    """With biases and norms at random too, so that no two of them are alike."""
    torch.manual_seed(0)
    model = make().eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.3 * torch.randn(parameter.shape))
    return model
