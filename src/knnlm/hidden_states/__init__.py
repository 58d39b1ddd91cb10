"""h_sm, h_ds: reading "att" and "ffn" out of a causal LM, and proving that the right thing was
read.

`ffn` is the input of the output embedding: h_sm itself. `att` is the normalised state after
attention that the last block's feed-forward layer reads. This room knows models from inside; it
knows nothing of stores or search."""

from knnlm.hidden_states.att import AttLocation as AttLocation
from knnlm.hidden_states.families import FAMILIES as FAMILIES
from knnlm.hidden_states.families import Family as Family
from knnlm.hidden_states.reader import KEYS as KEYS
from knnlm.hidden_states.reader import StateReader as StateReader
from knnlm.hidden_states.reader import States as States
from knnlm.hidden_states.reader import checked_keys as checked_keys
from knnlm.hidden_states.reader import default_keys as default_keys
