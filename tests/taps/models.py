"""Causal LMs of several families, tiny and random, all reading the same few tokens."""

from typing import Any

import torch

from knnlm.lm.presets import SMOKE, new_model

VOCABULARY = 97
_COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
_SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "max_position_embeddings": 64, **_COMMON,
}  # fmt: skip


def opt(**changes: Any) -> Any:
    """OPT as the presets make it, or changed."""
    model = _seeded(lambda: new_model(SMOKE, VOCABULARY, 0))
    if not changes:
        return model
    import transformers

    return _seeded(lambda: transformers.OPTForCausalLM(transformers.OPTConfig(**{**model.config.to_dict(), **changes})))


def gpt2() -> Any:
    """GPT-2."""
    import transformers

    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **_COMMON)
    return _seeded(lambda: transformers.GPT2LMHeadModel(config))


def gpt_neox() -> Any:
    """GPT-NeoX, whose attention and feed-forward layer read the same state."""
    import transformers

    config = transformers.GPTNeoXConfig(use_parallel_residual=True, **_SIZES)
    return _seeded(lambda: transformers.GPTNeoXForCausalLM(config))


def llama() -> Any:
    """Llama."""
    import transformers

    return _seeded(lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES)))


def granite(logits_scaling: float) -> Any:
    """Granite, which divides its logits."""
    import transformers

    config = transformers.GraniteConfig(logits_scaling=logits_scaling, **_SIZES)
    return _seeded(lambda: transformers.GraniteForCausalLM(config))


def cohere(logit_scale: float) -> Any:
    """Cohere, which multiplies its logits."""
    import transformers

    return _seeded(lambda: transformers.CohereForCausalLM(transformers.CohereConfig(logit_scale=logit_scale, **_SIZES)))


def gemma2(softcap: float | None) -> Any:
    """Gemma 2, which caps its logits, with logits large enough to show it."""
    import transformers

    config = transformers.Gemma2Config(final_logit_softcapping=softcap, head_dim=8, **_SIZES)
    model = _seeded(lambda: transformers.Gemma2ForCausalLM(config))
    model.get_output_embeddings().weight.data.mul_(50)
    return model


def some_tokens(rows: int = 3, length: int = 17) -> torch.Tensor:
    """Token ids that are not the tap's own probe."""
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(5))


def _seeded(make: Any) -> Any:
    """With biases and norms at random too, so that no two of them are alike."""
    torch.manual_seed(0)
    model = make().eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.3 * torch.randn(parameter.shape))
    return model
