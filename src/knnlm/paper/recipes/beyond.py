"""Not in the paper: what gets the most of the neighbours' gain without a search.

A network over att and ffn together; neighbours in other documents as teachers, alone and beside the true tokens; and
combinations, with and without neighbours beside them.
"""

from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Combined, Learned, Recipe, Row
from knnlm.paper.scales import Scale


def network(scale: Scale, soft: float = 0.0, seed: int = 0) -> Learned:
    """The largest network."""
    return Learned(state="both", seed=seed, kind="network", size=scale.learning.networks[-1], soft=soft)


def taught(scale: Scale, seed: int = 0) -> list[Learned]:
    """Heads and networks that neighbours teach."""
    return [
        row for soft in scale.learning.soft for row in (Learned(soft=soft, seed=seed), network(scale, soft, seed))
    ]  # fmt: skip


def clusters(scale: Scale, seed: int = 0) -> Learned:
    """The fewest clusters, learned further: centroids from the store, with a weight for each."""
    return Learned(kind="clusters", metric="l2", size=scale.learning.clusters[0], seed=seed)


def combinations(scale: Scale, seed: int = 0) -> list[Combined]:
    """Of the paper's two views and of ours; the last has neighbours too."""
    soft = scale.learning.soft[0]
    head, ours, said = Learned(seed=seed), network(scale, 0.0, seed), network(scale, soft, seed)
    pressed = clusters(scale, seed)
    parts = (head, ours, said, pressed)
    return [
        Combined((head, ours)), Combined((head, said)), Combined((head, pressed)), Combined((ours, pressed)),
        Combined(parts), Combined(parts, (exactly(paper_arm(scale)),)),
    ]  # fmt: skip


def recipe(scale: Scale) -> Recipe:
    """Networks, what neighbours taught, and combinations, for every seed."""
    rows: list[Row] = []
    for seed in range(scale.learning.seeds):
        rows += [Learned(state="both", kind="network", size=n, seed=seed) for n in scale.learning.networks]
        rows += [clusters(scale, seed), *taught(scale, seed), *combinations(scale, seed)]
    return Recipe("beyond", "The best without a search", (), tuple(rows))
