"""Where "att" is, by architecture: which vector, from which modules. Knows only module paths.

`att` is the normalised state after attention that the last block's feed-forward layer reads. Three
kinds of block:

  sequential   x + attention → norm → feed-forward      att = what the feed-forward layer reads
  OLMo-2       x + norm(attention) → feed-forward       it reads an un-normalised state, so att = the model's final norm
                                                        of that state (our definition)
  parallel     feed-forward and attention both read x   it never sees the attention, so att = norm(x + attention), with
                                                        the feed-forward layer's own norm (our definition)

One line for each family, checked numerically when a reader attaches, so a wrong line cannot go
unnoticed."""

from typing import Any, NamedTuple

from knnlm.errors import KnnlmError


class Family(NamedTuple):
    """Paths: `blocks` below the causal LM, the others below its last block ("/…": below the causal
    LM).

    The state is what the feed-forward layer (`reads`) reads or, in a `parallel` block, the block's
    input plus what `attention` gives; then `norm`, where there is one, is applied to it."""

    blocks: str
    attention: str
    reads: str
    parallel: bool = False
    norm: str | None = None


_LLAMA = Family("model.layers", "self_attn", "mlp")

FAMILIES: dict[str, Family] = {
    "gpt2": Family("transformer.h", "attn", "mlp"),
    "gpt_bigcode": Family("transformer.h", "attn", "mlp"),
    "opt": Family("model.decoder.layers", "self_attn", "fc1"),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "smollm3": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "granite": _LLAMA,
    "gemma": _LLAMA,
    "gemma2": _LLAMA,
    "gemma3_text": _LLAMA,
    "olmo2": Family("model.layers", "self_attn", "mlp", norm="/model.norm"),
    "gpt_neox": Family(
        "gpt_neox.layers", "attention", "mlp", parallel=True, norm="post_attention_layernorm"
    ),
    "gptj": Family("transformer.h", "attn", "mlp", parallel=True, norm="ln_1"),
    "phi": Family("model.layers", "self_attn", "mlp", parallel=True, norm="input_layernorm"),
    "cohere": Family("model.layers", "self_attn", "mlp", parallel=True, norm="input_layernorm"),
    "falcon": Family(
        "transformer.h", "self_attention", "mlp", parallel=True, norm="input_layernorm"
    ),
}


def family_of(config: Any) -> Family:
    """The line for this configuration, or an error that says why 'att' is not defined for it."""
    kind = config.model_type
    if kind not in FAMILIES:
        raise KnnlmError(
            f"where 'att' is in {kind} models is not known (known: {', '.join(sorted(FAMILIES))}): "
            "use --keys ffn, or "
            "name the last block's feed-forward layer with --att-module"
        )
    family = FAMILIES[kind]
    if kind == "opt" and not config.do_layer_norm_before:
        raise KnnlmError(
            "this OPT model normalises after its feed-forward layer, so 'att' is not defined: use "
            "--keys ffn"
        )
    if kind == "gpt_neox" and not config.use_parallel_residual:
        return family._replace(parallel=False, norm=None)
    if kind == "falcon":
        return _falcon(family, config)
    return family


def _falcon(family: Family, config: Any) -> Family:
    """Falcon's first models have one norm for both halves, the later ones two; it can also be
    sequential."""
    if config.new_decoder_architecture:
        return family._replace(norm="ln_mlp") if config.num_ln_in_parallel_attn == 2 else family
    return family if config.parallel_attn else family._replace(parallel=False, norm=None)
