"""Appendix D: which words gain from approximate neighbors: by length, and by forward and backward
bigram entropy."""

from dataclasses import replace

from knnlm_paper.conditions import WordTypes
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """Exact search against the index, exact scores both, as in the paper."""
    retrieval = paper_retrieval(scale)
    condition = WordTypes(exactly(retrieval), replace(retrieval, score="exact"), scale.least)
    return Experiment(
        "words",
        "Which words",
        ("fig:token_analysis_len", "fig:entropy", "app:wordanalysis"),
        (condition,),
    )
