"""att, computed a second time: the first half of the last block, written out from its sub-modules
for each family."""

import inspect
from typing import Any

import torch


def att_by_hand(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """att (B, T, D) of the last block, without a reader: its input and what it was called with are
    taken from outside."""
    kind = model.config.model_type
    block = _blocks(model)[-1]
    x, called_with = _what_enters(model, block, ids)
    first_norm, attention = _first_half(block, kind)
    inputs = {"hidden_states": first_norm(x)} if "hidden_states" in _parameters(attention) else {}
    output = attention(
        *(() if inputs else (first_norm(x),)), **inputs, **_accepted(attention, called_with)
    )
    attended = output[0] if isinstance(output, tuple) else output
    if kind in ("gemma2", "gemma3_text"):
        return block.pre_feedforward_layernorm(x + block.post_attention_layernorm(attended))
    if kind == "olmo2":
        return model.model.norm(x + block.post_attention_layernorm(attended))
    if kind == "granite":
        attended = attended * model.config.residual_multiplier
    return _second_norm(block)(x + attended)


def _blocks(model: Any) -> Any:
    body = getattr(model.base_model, "decoder", model.base_model)
    return body.layers if hasattr(body, "layers") else body.h


def _first_half(block: Any, kind: str) -> tuple[Any, Any]:
    """The norm that the attention reads, and the attention."""
    norm = next(
        getattr(block, n)
        for n in ("ln_attn", "ln_1", "self_attn_layer_norm", "input_layernorm", "self_attn")
        if hasattr(block, n)
    )
    attention = next(
        getattr(block, n)
        for n in ("self_attention", "self_attn", "attn", "attention")
        if hasattr(block, n)
    )
    return (torch.nn.Identity() if kind == "olmo2" else norm), attention


def _second_norm(block: Any) -> Any:
    """The norm whose output is att."""
    order = (
        "ln_mlp",
        "ln_2",
        "final_layer_norm",
        "post_attention_layernorm",
        "input_layernorm",
        "ln_1",
    )
    return next(getattr(block, n) for n in order if hasattr(block, n))


def _what_enters(model: Any, block: Any, ids: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    handle = block.register_forward_pre_hook(
        lambda _, args, named: found.append((args, named)), with_kwargs=True
    )
    hidden = model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    handle.remove()
    arguments, named = found[0]
    torch.testing.assert_close(hidden[-2], arguments[0] if arguments else named["hidden_states"])
    return hidden[-2], {name: value for name, value in named.items() if name != "hidden_states"}


def _parameters(module: Any) -> Any:
    return inspect.signature(module.forward).parameters


def _accepted(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    parameters = _parameters(module)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return given
    return {name: value for name, value in given.items() if name in parameters}
