"""Appendix C.3: the store compressed to centroids, as k-means leaves them and learned further."""

from knnlm.paper.recipes.substitutes import STATES
from knnlm.paper.rows import Learned, Recipe
from knnlm.paper.scales import Scale


def recipe(scale: Scale) -> Recipe:
    """Every number of centroids over both states, L2 as k-means has it; the smallest numbers learned further."""
    sizes = scale.learning.clusters
    rows = [
        Learned(state=state, kind="clusters", metric="l2", size=size, fitted=fitted)
        for state in STATES for fitted in (False, True) for size in (sizes[:2] if fitted else sizes)
    ]  # fmt: skip
    return Recipe("clusters", "The store as clusters", ("appendix C.3", "app:bottleneck-detail"), tuple(rows))
