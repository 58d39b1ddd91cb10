"""Appendix A: the same for base LMs of other sizes."""

from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """att and L2, with the index and exactly, for every width and every further LM."""
    lms = (*scale.widths, *(lm.name for lm in scale.others))
    paper = [paper_retrieval(scale, lm) for lm in lms]
    conditions = tuple(KNN(r) for one in paper for r in (one, exactly(one)))
    return Experiment(
        "models",
        "Base LMs of other sizes",
        ("tab:knn_other_models", "app:generalization-knnlm"),
        conditions,
    )
