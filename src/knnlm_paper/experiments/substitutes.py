"""Table 2: a learned head over att or over ffn instead of the datastore; alone with the LM, and
both at once."""

from dataclasses import replace
from typing import Any, Literal

from knnlm.similarity import METRICS
from knnlm_paper.conditions import KNN, Combined, Learned, PaperCondition
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale

STATES: tuple[Literal["att"], Literal["ffn"]] = ("att", "ffn")


def both(seed: int = 0) -> Combined:
    """The LM, att's head and ffn's head: the paper's two views, without retrieval."""
    return Combined((Learned(seed=seed), Learned(state="ffn", seed=seed)))


def experiment(scale: Scale) -> Experiment:
    """Neighbors and heads of both states and metrics; both heads at once; a head with neighbors;
    for every seed."""
    conditions: list[PaperCondition[Any]] = [
        KNN(exactly(replace(paper_retrieval(scale), state=s, metric=m)))
        for s in STATES
        for m in METRICS
    ]
    for seed in range(scale.learning.seeds):
        conditions += [
            Learned(state=state, seed=seed, metric=metric)
            for state in STATES
            for metric in METRICS[::-1]
        ]
        conditions += [
            both(seed),
            Combined((Learned(seed=seed),), (exactly(paper_retrieval(scale)),)),
        ]
    return Experiment(
        "substitutes",
        "A learned head instead of the datastore",
        ("tab:input_representation",),
        tuple(conditions),
    )
