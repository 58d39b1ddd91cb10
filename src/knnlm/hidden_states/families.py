"""Where "att" is in each architecture, as data: one line of module paths for each family.

att is the normalized state after attention that the last block's feed-forward layer reads. With x
the block's input, there are three kinds of block:

  sequential   x + attention → norm → feed-forward. att is what the feed-forward layer reads.
  OLMo-2       x + norm(attention) → feed-forward, which reads a state that is not normalized. att
               is the model's final norm of that state (our definition).
  parallel     feed-forward and attention both read x, so the feed-forward layer never sees the
               attention. att = norm(x + attention), with the norm through which the feed-forward
               layer reads (our definition).

Every line is checked numerically each time a reader attaches, so a wrong line is always noticed.
"""

from typing import Any, NamedTuple

from knnlm.errors import KnnlmError


class Family(NamedTuple):
    """Module paths of one architecture, below its last block unless said otherwise.

    Attributes:
        blocks: The list of blocks, below the causal LM.
        attention: The attention module.
        feed_forward: The module that reads the state after attention.
        parallel: Whether att is the block's input plus the attention's output, instead of what
            `feed_forward` reads.
        norm: The norm to apply to that state; "/…" is a path below the causal LM, and None means
            that the state is normalized already.
    """

    blocks: str
    attention: str
    feed_forward: str
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
    """Look a model's configuration up in `FAMILIES`.

    Args:
        config: The configuration of a transformers model.

    Returns:
        Its family, adapted to what this configuration says of the order of its layers.

    Raises:
        KnnlmError: att is not known, or not defined, for this configuration.
    """
    kind = config.model_type
    if kind not in FAMILIES:
        raise KnnlmError(
            f"where 'att' is in {kind} models is not known (known: {', '.join(sorted(FAMILIES))}): "
            "use --keys ffn, or name the last block's feed-forward layer with --att-module"
        )
    family = FAMILIES[kind]
    if kind == "opt" and not config.do_layer_norm_before:
        raise KnnlmError(
            "this OPT model normalizes after its feed-forward layer, so 'att' is not defined: use "
            "--keys ffn"
        )
    if kind == "gpt_neox" and not config.use_parallel_residual:
        return family._replace(parallel=False, norm=None)
    if kind == "falcon":
        return _falcon(family, config)
    return family


def _falcon(family: Family, config: Any) -> Family:
    """Early Falcon models have one norm for attention and feed-forward, later ones have two; a
    configuration can also be sequential."""
    if config.new_decoder_architecture:
        return family._replace(norm="ln_mlp") if config.num_ln_in_parallel_attn == 2 else family
    return family if config.parallel_attn else family._replace(parallel=False, norm=None)
