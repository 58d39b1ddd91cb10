"""Appendix A: the same for base LMs of other sizes."""

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Evaluate, Recipe
from knnlm_paper.scales import Scale


def recipe(scale: Scale) -> Recipe:
    """att and L2, with the index and exactly, for every width and every further LM."""
    lms = (*scale.widths, *(lm.name for lm in scale.others))
    arms = [arm for lm in lms for arm in (paper_arm(scale, lm), exactly(paper_arm(scale, lm)))]
    rows = tuple(Evaluate(arm) for arm in arms)
    return Recipe(
        "models",
        "Base LMs of other sizes",
        ("tab:knn_other_models", "app:generalization-knnlm"),
        rows,
    )
