"""Appendix C.1: the same number of embeddings in all, more of them for tokens that are frequent or
hard."""

from knnlm_paper.conditions import Learned
from knnlm_paper.conditions.learned import Sizing
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.scales import Scale

SIZINGS: tuple[Sizing, ...] = ("equal", "loss", "frequency")


def experiment(scale: Scale) -> Experiment:
    """Equal, by loss and by frequency, over both states."""
    points = scale.learning
    conditions = [
        Learned(state=state, size=points.adaptive, sizing=sizing)
        for state in STATES
        for sizing in SIZINGS
    ]
    labels = ("tab:adaptive_results", "appendix C.1", "app:bottleneck-detail")
    return Experiment(
        "adaptive", "Embeddings for the tokens that need them", labels, tuple(conditions)
    )
