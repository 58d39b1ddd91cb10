"""Tokens that no state can make the most probable (appendix E.4): `condition` and its measurement,
`reachable` for the decision."""

from knnlm_paper.conditions.reachability.condition import Reachability as Reachability
from knnlm_paper.conditions.reachability.condition import (
    ReachabilityMeasurement as ReachabilityMeasurement,
)
