"""Table 1: which state, which similarity. The paper's rows use an index; exact ones stand beside
them."""

from dataclasses import replace

from knnlm.similarity import METRICS
from knnlm_paper.rows import Arm, Evaluate, Recipe
from knnlm_paper.scales import Scale


def paper_arm(scale: Scale, lm: str = "main") -> Arm:
    """The paper's kNN-LM: att, L2, FAISS mask and score. Every other arm is this one with something
    changed."""
    return Arm(lm=lm, k=scale.k, factory=scale.factory)


def exactly(arm: Arm) -> Arm:
    """The same with real mask and real scores."""
    return replace(arm, mask="exact", score="real")


def recipe(scale: Scale) -> Recipe:
    """att and ffn × L2 and IP, for every seed of the main LM."""
    rows = []
    for lm in scale.seeds:
        for state in ("att", "ffn"):
            for metric in METRICS:
                arm = replace(paper_arm(scale, lm), state=state, metric=metric)
                rows += [Evaluate(arm), Evaluate(exactly(arm))]
    return Recipe(
        "baselines", "Which state and which similarity", ("tab:knn_baselines",), tuple(rows)
    )
