"""Table 3: {FAISS, real} mask × {FAISS, real} score, with the arm that the paper left out (real
mask, FAISS score)."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import paper_arm
from knnlm_paper.rows import Arm, Evaluate, Recipe
from knnlm_paper.scales import Scale


def four(arm: Arm) -> tuple[Arm, ...]:
    """All four, in the paper's order; the missing one last."""
    return (
        replace(arm, mask="faiss", score="faiss"),
        replace(arm, mask="faiss", score="real"),
        replace(arm, mask="exact", score="real"),
        replace(arm, mask="exact", score="faiss"),
    )


def recipe(scale: Scale) -> Recipe:
    """The four arms on att and L2, for every seed of the main LM."""
    rows = [Evaluate(arm) for lm in scale.seeds for arm in four(paper_arm(scale, lm))]
    return Recipe(
        "recompute", "Approximate or exact: mask and score", ("tab:knn_recompute",), tuple(rows)
    )
