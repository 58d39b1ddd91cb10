"""Appendix C.3: the store compressed to centroids, as k-means leaves them and learned further; and
not in the paper, pressed to far fewer than there are words."""

from typing import Literal

from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.rows import Learned, Recipe
from knnlm_paper.scales import Scale


def pressed(
    state: Literal["att", "ffn"], size: float, fitted: bool = False, seed: int = 0
) -> Learned:
    """A store of `size` centroids a word."""
    return Learned(state=state, kind="clusters", metric="l2", size=size, fitted=fitted, seed=seed)


def recipe(scale: Scale) -> Recipe:
    """Every number of centroids over both states, L2 as k-means has it; the smallest of the paper's
    numbers learned further; fewer, which take seconds, for every seed."""
    points = scale.learning
    rows: list[Learned] = []
    for state in STATES:
        rows += [
            pressed(state, size, seed=seed) for size in points.fewer for seed in range(points.seeds)
        ]
        rows += [pressed(state, size) for size in points.clusters]
        rows.append(pressed(state, points.clusters[0], fitted=True))
    return Recipe(
        "clusters", "The store as clusters", ("appendix C.3", "app:bottleneck-detail"), tuple(rows)
    )
