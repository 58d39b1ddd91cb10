"""A list of tokens instead of neighbors: `condition` says which, `lists` makes and scores them."""

from knnlm_paper.conditions.token_list.condition import TokenList as TokenList
from knnlm_paper.conditions.token_list.condition import (
    TokenListMeasurement as TokenListMeasurement,
)
