"""Writes a tiny Llama as a GGUF file, as llama.cpp's converter would."""

import json
from pathlib import Path
from typing import Any

import torch

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(path: Path, model: Any, tokenizer: Any) -> None:
    """Write a Llama model, in fp32, and its byte-level tokenizer."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    rules = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    ordered = sorted(rules["vocab"], key=rules["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(ordered)
    writer.add_token_types([3 if t == tokenizer.bos_token else 1 for t in ordered])
    writer.add_token_merges([" ".join(m) for m in rules["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(_named(name), _permuted(name, tensor, config).float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    if name in whole or name == "lm_head.weight":
        return whole.get(name, "output.weight")
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_NAMES[rest.removesuffix('.weight')]}.weight"


def _permuted(name: str, tensor: torch.Tensor, config: Any) -> torch.Tensor:
    """llama.cpp pairs rotary dimensions differently: rows of queries and keys are interleaved."""
    if "q_proj" in name or "k_proj" in name:
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        shape = (heads, 2, tensor.shape[0] // heads // 2, tensor.shape[1])
        return tensor.reshape(shape).swapaxes(1, 2).reshape(tensor.shape)
    return tensor
