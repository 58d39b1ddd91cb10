"""Appendix E.6.3: embeddings learned by the loss of the mixture instead of their own."""

from knnlm_paper.conditions import Learned
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """V and nV embeddings over both states."""
    points = scale.learning
    conditions = [
        Learned(state=s, size=n, lam=points.lam) for s in STATES for n in (1, points.adaptive)
    ]
    return Experiment(
        "interpolated",
        "Learning to be mixed",
        ("app:interpolated_loss", "appendix E.6", "app:failed"),
        tuple(conditions),
    )
