"""Which words gain from approximate search (appendix D): `condition` and its measurement, `types`
for the analysis. "Word" is the paper's: a type of the vocabulary."""

from knnlm_paper.conditions.word_types.condition import WordType as WordType
from knnlm_paper.conditions.word_types.condition import WordTypes as WordTypes
from knnlm_paper.conditions.word_types.condition import (
    WordTypesMeasurement as WordTypesMeasurement,
)
