"""Table 2: a second softmax over att or over ffn, learned from the store; alone with the LM, and
both at once."""

from dataclasses import replace
from typing import Literal

from knnlm.similarity import METRICS
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Combined, Evaluate, Learned, Recipe, Row
from knnlm_paper.scales import Scale

STATES: tuple[Literal["att"], Literal["ffn"]] = ("att", "ffn")


def both(seed: int = 0) -> Combined:
    """The LM, att's head and ffn's head: the paper's two views, without retrieval."""
    return Combined((Learned(seed=seed), Learned(state="ffn", seed=seed)))


def recipe(scale: Scale) -> Recipe:
    """Neighbours and heads of both states and metrics; both heads at once; a head with neighbours;
    for every seed."""
    rows: list[Row] = [
        Evaluate(exactly(replace(paper_arm(scale), state=s, metric=m)))
        for s in STATES
        for m in METRICS
    ]
    for seed in range(scale.learning.seeds):
        rows += [
            Learned(state=state, seed=seed, metric=metric)
            for state in STATES
            for metric in METRICS[::-1]
        ]
        rows += [both(seed), Combined((Learned(seed=seed),), (exactly(paper_arm(scale)),))]
    return Recipe(
        "substitutes",
        "A second softmax in the place of the store",
        ("tab:input_representation",),
        tuple(rows),
    )
