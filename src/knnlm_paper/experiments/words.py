"""Appendix D: which words gain from approximate neighbours: by length, and by forward and backward
bigram entropy."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Recipe, Words
from knnlm_paper.scales import Scale


def recipe(scale: Scale) -> Recipe:
    """Real against FAISS mask, real scores both, as in the paper."""
    arm = paper_arm(scale)
    row = Words(exactly(arm), replace(arm, score="real"), scale.least)
    return Recipe(
        "words",
        "Which words",
        ("fig:token_analysis_len", "fig:entropy", "app:wordanalysis"),
        (row,),
    )
