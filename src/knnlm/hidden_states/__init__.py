"""h_sm, h_ds: read the hidden states "att" and "ffn" out of any causal LM, and prove that the
right vectors were read.

`ffn` is the input of the output embedding: h_sm itself, in every architecture. `att` is the
normalized state after attention that the last block's feed-forward layer reads; `FAMILIES` says
where that is. `StateReader` attaches hooks to a model, checks numerically that they read what they
claim, and refuses a model that fails. `compute_entries` runs it over windows of tokens."""

from knnlm.hidden_states.att import AttLocation as AttLocation
from knnlm.hidden_states.att import locate_att as locate_att
from knnlm.hidden_states.families import FAMILIES as FAMILIES
from knnlm.hidden_states.families import Family as Family
from knnlm.hidden_states.forward import TokenWindow as TokenWindow
from knnlm.hidden_states.forward import compute_entries as compute_entries
from knnlm.hidden_states.forward import token_columns as token_columns
from knnlm.hidden_states.output_head import logit_blocks as logit_blocks
from knnlm.hidden_states.output_head import model_logits as model_logits
from knnlm.hidden_states.output_head import output_embedding as output_embedding
from knnlm.hidden_states.output_head import target_logprobs as target_logprobs
from knnlm.hidden_states.reader import KEYS as KEYS
from knnlm.hidden_states.reader import Capture as Capture
from knnlm.hidden_states.reader import StateReader as StateReader
from knnlm.hidden_states.reader import States as States
from knnlm.hidden_states.reader import checked_keys as checked_keys
from knnlm.hidden_states.reader import default_keys as default_keys
