"""Whether the place of a token in the text matters (appendix E.3): `condition` and its measurement,
`places` for the analysis."""

from knnlm_paper.conditions.place_in_text.condition import Correlation as Correlation
from knnlm_paper.conditions.place_in_text.condition import Dependence as Dependence
from knnlm_paper.conditions.place_in_text.condition import PlaceInText as PlaceInText
from knnlm_paper.conditions.place_in_text.condition import (
    PlaceInTextMeasurement as PlaceInTextMeasurement,
)
from knnlm_paper.conditions.place_in_text.condition import Quantities as Quantities
from knnlm_paper.conditions.place_in_text.condition import Range as Range
from knnlm_paper.conditions.place_in_text.condition import Third as Third
from knnlm_paper.conditions.place_in_text.condition import Thirds as Thirds
