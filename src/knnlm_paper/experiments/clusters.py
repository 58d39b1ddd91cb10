"""Appendix C.3: the datastore compressed into clusters, as k-means leaves them and learned further;
and not in the paper, into far fewer than there are vocabulary entries."""

from typing import Literal

from knnlm_paper.conditions import Learned
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.scales import Scale


def clusters_of(
    state: Literal["att", "ffn"], size: float, fitted: bool = False, seed: int = 0
) -> Learned:
    """A datastore of `size` clusters for each vocabulary entry."""
    return Learned(
        state=state, component="clusters", metric="l2", size=size, fitted=fitted, seed=seed
    )


def experiment(scale: Scale) -> Experiment:
    """Every number of clusters over both states, L2 as k-means has it; the smallest of the paper's
    numbers learned further; fewer, which take seconds, for every seed."""
    points = scale.learning
    conditions: list[Learned] = []
    for state in STATES:
        conditions += [
            clusters_of(state, size, seed=seed)
            for size in points.fewer_clusters
            for seed in range(points.seeds)
        ]
        conditions += [clusters_of(state, size) for size in points.clusters]
        conditions.append(clusters_of(state, points.clusters[0], fitted=True))
    return Experiment(
        "clusters",
        "The datastore as clusters",
        ("appendix C.3", "app:bottleneck-detail"),
        tuple(conditions),
    )
