"""Not in the paper: what gets the most of the neighbors' gain without a search.

An MLP over att and ffn together; neighbors in other documents as teachers, alone and beside the
true tokens; and combinations, with and without neighbors beside them. MLPs are learned from
every seed; of the rest one start is enough to see how far from the neighbors it is."""

from typing import Any

from knnlm_paper.conditions import Combined, Learned, PaperCondition
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def mlp(scale: Scale, soft: float = 0.0) -> Learned:
    """The largest MLP."""
    return Learned(state="both", component="mlp", size=scale.learning.mlp_widths[-1], soft=soft)


def taught(scale: Scale) -> list[Learned]:
    """Heads and MLPs that neighbors teach."""
    return [
        condition
        for soft in scale.learning.soft
        for condition in (Learned(soft=soft), mlp(scale, soft))
    ]


def combinations(scale: Scale) -> list[Combined]:
    """Of the paper's two views and of ours; the last has neighbors too."""
    head, plain, taught_mlp = Learned(), mlp(scale), mlp(scale, scale.learning.soft[0])
    att, ffn = (
        clusters_of("att", scale.learning.clusters[0]),
        clusters_of("ffn", scale.learning.clusters[0]),
    )
    parts = (head, plain, taught_mlp, att, ffn)
    return [
        Combined((head, plain)),
        Combined((head, taught_mlp)),
        Combined((head, ffn)),
        Combined((plain, ffn)),
        Combined((att, ffn)),
        Combined(parts),
        Combined(parts, (exactly(paper_retrieval(scale)),)),
    ]


def experiment(scale: Scale) -> Experiment:
    """MLPs, what neighbors taught, and combinations."""
    points = scale.learning
    conditions: list[PaperCondition[Any]] = [
        Learned(state="both", component="mlp", size=n, seed=seed)
        for seed in range(points.seeds)
        for n in points.mlp_widths
    ]
    return Experiment(
        "beyond",
        "The best without a search",
        (),
        (*conditions, *taught(scale), *combinations(scale)),
    )
