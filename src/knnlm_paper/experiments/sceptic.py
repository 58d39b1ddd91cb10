"""What a sceptic asks: how many neighbours, which kind of approximation, fewer dimensions, and no
mask at all.

(The other baseline, a calibrated LM, is measured with every row.)
"""

from dataclasses import replace

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.rows import Counts, Evaluate, Recipe, Unmasked
from knnlm_paper.scales import Scale


def neighbours(scale: Scale) -> Recipe:
    """k from one to thousands, exact and approximate, all from one search each."""
    arm = replace(paper_arm(scale), k=max(scale.ks))
    return Recipe(
        "neighbours",
        "How many neighbours",
        (),
        tuple(Counts(a, scale.ks) for a in (exactly(arm), arm)),
    )


def approximations(scale: Scale) -> Recipe:
    """Lists pruned without quantising, quantised without pruning, and both: recall against
    perplexity."""
    rows = tuple(
        Evaluate(replace(paper_arm(scale), factory=factory, nprobe=nprobe))
        for factory, nprobe in scale.factories
    )
    return Recipe("approximations", "Which approximation", (), rows)


def unmasked(scale: Scale) -> Recipe:
    """All rows of the store vote, which is where k ends; for every seed of the main LM."""
    rows = tuple(Unmasked(lm, state) for lm in scale.seeds for state in STATES)
    return Recipe("unmasked", "All rows vote, without a mask", (), rows)


def components(scale: Scale) -> Recipe:
    """Keys reduced by PCA, as He et al. (2021) did from 1024 to 512 dimensions; for every seed of
    the main LM."""
    arms = [
        replace(exactly(paper_arm(scale, lm)), width=w)
        for lm in scale.seeds
        for w in scale.components
    ]
    return Recipe("components", "Keys of fewer dimensions", (), tuple(Evaluate(a) for a in arms))
