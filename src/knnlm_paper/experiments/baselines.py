"""Table 1: which state, which similarity. The paper's use an index; exact ones stand beside
them."""

from dataclasses import replace

from knnlm.similarity import METRICS
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """att and ffn × L2 and IP, for every seed of the main LM."""
    conditions = []
    for lm in scale.seeds:
        for state in ("att", "ffn"):
            for metric in METRICS:
                retrieval = replace(paper_retrieval(scale, lm), state=state, metric=metric)
                conditions += [KNN(retrieval), KNN(exactly(retrieval))]
    return Experiment(
        "baselines", "Which state and which similarity", ("tab:knn_baselines",), tuple(conditions)
    )
