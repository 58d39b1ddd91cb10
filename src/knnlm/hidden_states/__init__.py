"""h_sm, h_ds: read the hidden states "att" and "ffn" out of any causal LM, and prove that the
right vectors were read.

`ffn` is the input of the output embedding: h_sm itself, in every architecture. `att` is the
normalized state after attention that the last block's feed-forward layer reads; `FAMILIES` says
where that is. `StateReader` attaches hooks to a model, checks numerically that they read what they
claim, and refuses a model that fails. `compute_entries` runs it over windows of tokens."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
