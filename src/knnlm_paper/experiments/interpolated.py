"""Appendix E.6.3: embeddings learned by the loss of the mixture instead of their own."""

from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.rows import Learned, Recipe
from knnlm_paper.scales import Scale


def recipe(scale: Scale) -> Recipe:
    """V and nV embeddings over both states."""
    points = scale.learning
    rows = [Learned(state=s, size=n, lam=points.lam) for s in STATES for n in (1, points.adaptive)]
    return Recipe(
        "interpolated",
        "Learning to be mixed",
        ("app:interpolated_loss", "appendix E.6", "app:failed"),
        tuple(rows),
    )
