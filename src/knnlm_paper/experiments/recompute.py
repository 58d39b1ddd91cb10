"""Table 3: {index, exact} search × {index, exact} score, with the one that the paper left out
(exact search, scores of the index)."""

from dataclasses import replace

from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import Scale


def four(retrieval: Retrieval) -> tuple[Retrieval, ...]:
    """All four, in the paper's order; the missing one last."""
    return (
        replace(retrieval, search="index", score="index"),
        replace(retrieval, search="index", score="exact"),
        replace(retrieval, search="exact", score="exact"),
        replace(retrieval, search="exact", score="index"),
    )


def experiment(scale: Scale) -> Experiment:
    """The four retrievals on att and L2, for every seed of the main LM."""
    conditions = [KNN(r) for lm in scale.seeds for r in four(paper_retrieval(scale, lm))]
    return Experiment(
        "recompute",
        "Approximate or exact: search and score",
        ("tab:knn_recompute",),
        tuple(conditions),
    )
