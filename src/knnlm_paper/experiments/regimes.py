"""When each reason holds: the main effects against training progress and against the width of the
LM.

The paper's LM was wide, had dropout and stopped where validation did. Here the same effects are
measured on LMs that had too little training, enough, and (without dropout) too much."""

from dataclasses import replace
from typing import Any

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import KNN, Learned, PaperCondition
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale


def retrievals(scale: Scale, lm: str, step: int | None) -> tuple[Retrieval, ...]:
    """The paper's, the exact one, and the exact one on ffn: enough for all three effects."""
    retrieval = paper_retrieval(scale, lm, step)
    return retrieval, exactly(retrieval), replace(exactly(retrieval), state="ffn")


def points(scale: Scale) -> list[tuple[str, int | None]]:
    """(LM, update) of every point: kept checkpoints, and the best of every width."""
    return [*scale.checkpoints, *((lm, None) for lm in scale.widths)]


def experiment(scale: Scale) -> Experiment:
    """All three retrievals and a learned head at every point."""
    conditions: list[PaperCondition[Any]] = []
    for lm, step in points(scale):
        conditions += [
            *(KNN(retrieval) for retrieval in retrievals(scale, lm, step)),
            Learned(lm=Checkpoint(lm, step)),
        ]
    return Experiment("regimes", "When each reason holds", (), tuple(conditions))
