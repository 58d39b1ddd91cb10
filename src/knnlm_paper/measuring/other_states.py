"""States other than att and ffn, for one question: is it the layer or its LayerNorm? Only for the
LMs we train (OPT).

att-raw       what the LayerNorm before the last feed-forward layer reads: att before it is
              normalized
att-earlier   att of the block before the last
"""

from typing import Any

from knnlm.errors import KnnlmError
from knnlm.hidden_states import AttLocation


def other_state(model: Any, name: str) -> AttLocation:
    """Where the state is, for a reader that reads it instead of att."""
    if model.config.model_type != "opt" or len(model.model.decoder.layers) < 2:
        raise KnnlmError(
            f"'{name}' is known for OPT models of at least two blocks only: use one that 'knnlm "
            "train' makes"
        )
    layers = model.model.decoder.layers
    if name == "att-raw":
        block = layers[-1]
        return AttLocation(
            block.self_attn,
            block,
            block.final_layer_norm,
            False,
            None,
            "input of the last block's norm",
        )
    block = layers[-2]
    return AttLocation(
        block.self_attn, block, block.fc1, False, None, "input of fc1 in the block before the last"
    )
