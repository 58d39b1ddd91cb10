"""Where "att" is, by architecture: the module whose input it is, and the attention it must depend on.

One line for each family, checked numerically when a tap attaches, so a wrong line cannot go unnoticed. Knows only
module paths. The block is the last of `blocks`; `reader` is the first module of its feed-forward layer.
"""

from typing import NamedTuple


class Family(NamedTuple):
    """Paths below the causal LM (`blocks`) and below its last block (`reader`, `attention`)."""

    blocks: str
    reader: str
    attention: str


FAMILIES: dict[str, Family] = {
    "opt": Family("model.decoder.layers", "fc1", "self_attn"),
    "gpt2": Family("transformer.h", "mlp", "attn"),
}
