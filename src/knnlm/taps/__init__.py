"""h_sm, h_ds: reading "att" and "ffn" out of a causal LM, and proving that the right thing was read.

`ffn` is the input of the output embedding: h_sm itself. `att` is the normalised state after attention that the last
block's feed-forward layer reads. This room knows models from inside; it knows nothing of stores or search.
"""

from knnlm.taps.att import AttPoint as AttPoint
from knnlm.taps.families import FAMILIES as FAMILIES
from knnlm.taps.families import Family as Family
from knnlm.taps.tap import KEYS as KEYS
from knnlm.taps.tap import States as States
from knnlm.taps.tap import Tap as Tap
from knnlm.taps.tap import checked_keys as checked_keys
from knnlm.taps.tap import possible_keys as possible_keys
