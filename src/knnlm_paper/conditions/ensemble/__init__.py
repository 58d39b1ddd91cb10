"""Several LMs mixed, with and without neighbors: `condition` says which, `measure` does it."""

from knnlm_paper.conditions.ensemble.condition import Ensemble as Ensemble
from knnlm_paper.conditions.ensemble.condition import EnsembleMeasurement as EnsembleMeasurement
