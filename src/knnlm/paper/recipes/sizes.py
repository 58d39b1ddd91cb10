"""Figures: perplexity against the size of the store, with approximate and real masks and scores."""

from dataclasses import replace

from knnlm.paper.recipes.baselines import paper_arm
from knnlm.paper.recipes.recompute import four
from knnlm.paper.rows import Arm, Evaluate, Recipe
from knnlm.paper.scales import Scale


def arms(scale: Scale, fraction: float, draw: int) -> tuple[Arm, ...]:
    """The paper's three settings on one random part of the store."""
    return four(replace(paper_arm(scale), fraction=fraction, draw=draw))[:3]


def recipe(scale: Scale) -> Recipe:
    """Every fraction, several random parts of each; the whole store has one."""
    rows = [
        Evaluate(arm)
        for fraction in scale.fractions
        for draw in range(scale.draws if fraction < 1 else 1)
        for arm in arms(scale, fraction, draw)
    ]
    labels = ("fig:subsample_dstore_only", "fig:datastore_size")
    return Recipe("sizes", "How large the store is", labels, tuple(rows))
