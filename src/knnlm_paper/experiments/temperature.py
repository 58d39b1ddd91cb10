"""Figures: perplexity against τ for each mask and score, on a small part of the store and on all of
it."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import paper_arm
from knnlm_paper.experiments.recompute import four
from knnlm_paper.rows import Recipe, Temperatures
from knnlm_paper.scales import Scale


def recipe(scale: Scale) -> Recipe:
    """The four arms at both sizes."""
    rows = [
        Temperatures(arm)
        for fraction in (scale.small, 1.0)
        for arm in four(replace(paper_arm(scale), fraction=fraction))
    ]
    labels = ("fig:small_temperature", "fig:full_temperature", "fig:temperature")
    return Recipe("temperature", "How peaky", labels, tuple(rows))
