"""Something learned from the entries of a datastore instead of searching it.

condition   its settings, cost and measurement     learner   learns each once
measure     what it does for the LM at several τ
"""

from knnlm_paper.conditions.learned.condition import AddedCost as AddedCost
from knnlm_paper.conditions.learned.condition import Fit as Fit
from knnlm_paper.conditions.learned.condition import Learned as Learned
from knnlm_paper.conditions.learned.condition import LearnedMeasurement as LearnedMeasurement
from knnlm_paper.conditions.learned.condition import LearnedPoint as LearnedPoint
from knnlm_paper.conditions.learned.condition import Sizing as Sizing
