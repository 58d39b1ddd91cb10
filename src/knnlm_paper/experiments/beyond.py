"""Not in the paper: what gets the most of the neighbours' gain without a search.

A network over att and ffn together; neighbours in other documents as teachers, alone and beside the
true tokens; and combinations, with and without neighbours beside them. Networks are learned from
every seed; of the rest one start is enough to see how far from the neighbours it is."""

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.clusters import pressed
from knnlm_paper.rows import Combined, Learned, Recipe, Row
from knnlm_paper.scales import Scale


def network(scale: Scale, soft: float = 0.0) -> Learned:
    """The largest network."""
    return Learned(state="both", kind="network", size=scale.learning.networks[-1], soft=soft)


def taught(scale: Scale) -> list[Learned]:
    """Heads and networks that neighbours teach."""
    return [
        row for soft in scale.learning.soft for row in (Learned(soft=soft), network(scale, soft))
    ]


def combinations(scale: Scale) -> list[Combined]:
    """Of the paper's two views and of ours; the last has neighbours too."""
    head, ours, said = Learned(), network(scale), network(scale, scale.learning.soft[0])
    att, ffn = (
        pressed("att", scale.learning.clusters[0]),
        pressed("ffn", scale.learning.clusters[0]),
    )
    parts = (head, ours, said, att, ffn)
    return [
        Combined((head, ours)),
        Combined((head, said)),
        Combined((head, ffn)),
        Combined((ours, ffn)),
        Combined((att, ffn)),
        Combined(parts),
        Combined(parts, (exactly(paper_arm(scale)),)),
    ]


def recipe(scale: Scale) -> Recipe:
    """Networks, what neighbours taught, and combinations."""
    points = scale.learning
    rows: list[Row] = [
        Learned(state="both", kind="network", size=n, seed=seed)
        for seed in range(points.seeds)
        for n in points.networks
    ]
    return Recipe(
        "beyond", "The best without a search", (), (*rows, *taught(scale), *combinations(scale))
    )
