"""When each reason holds: the main effects against training progress and against the width of the
LM.

The paper's LM was wide, had dropout and stopped where validation did. Here the same effects are
measured on LMs that had too little training, enough, and (without dropout) too much."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Arm, Evaluate, Learned, Recipe, Row
from knnlm_paper.scales import Scale


def arms(scale: Scale, lm: str, step: int | None) -> tuple[Arm, ...]:
    """The paper's arm, the exact one, and the exact one on ffn: enough for all three effects."""
    arm = replace(paper_arm(scale, lm), step=step)
    return arm, exactly(arm), replace(exactly(arm), state="ffn")


def points(scale: Scale) -> list[tuple[str, int | None]]:
    """(LM, update) of every point: kept checkpoints, and the best of every width."""
    return [*scale.checkpoints, *((lm, None) for lm in scale.widths)]


def recipe(scale: Scale) -> Recipe:
    """All three arms and a learned head at every point."""
    rows: list[Row] = []
    for lm, step in points(scale):
        rows += [*(Evaluate(arm) for arm in arms(scale, lm, step)), Learned(of=lm, step=step)]
    return Recipe("regimes", "When each reason holds", (), tuple(rows))
