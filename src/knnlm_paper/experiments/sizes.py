"""Figures: perplexity against the size of the store, with approximate and real masks and scores."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import paper_arm
from knnlm_paper.experiments.recompute import four
from knnlm_paper.rows import Arm, Evaluate, Recipe
from knnlm_paper.scales import Scale


def arms(scale: Scale, fraction: float, draw: int, lm: str = "main") -> tuple[Arm, ...]:
    """The paper's three settings on one random part of the store."""
    return four(replace(paper_arm(scale, lm), fraction=fraction, draw=draw))[:3]


def compared(scale: Scale) -> tuple[float, float, float]:
    """The fractions that claims are about: the smallest, the one nearest to a half, the last below
    all."""
    middle = min(scale.fractions, key=lambda fraction: abs(fraction - 0.5))
    return scale.fractions[0], middle, scale.fractions[-2]


def recipe(scale: Scale) -> Recipe:
    """Every fraction, several random parts of each, the whole store once; for further seeds of the
    main LM the fractions that claims are about."""
    rows = [
        Evaluate(arm)
        for lm in scale.seeds
        for fraction in scale.fractions
        if lm == "main" or fraction in (*compared(scale), 1.0)
        for draw in range(scale.draws if fraction < 1 else 1)
        for arm in arms(scale, fraction, draw, lm)
    ]
    labels = ("fig:subsample_dstore_only", "fig:datastore_size")
    return Recipe("sizes", "How large the store is", labels, tuple(rows))
