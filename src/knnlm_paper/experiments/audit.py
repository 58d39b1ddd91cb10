"""The audit: do confounds in the paper's own code explain its surprises? One recipe for each that
needs its own rows.

τ = 1 against a tuned τ (F7), λ tuned on the reported split (F2) and perplexity per token or word
(F3) need none: every row has all of these numbers."""

from dataclasses import replace

from knnlm.similarity import METRICS
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Arm, Evaluate, Recipe, State
from knnlm_paper.scales import Scale

STATES: tuple[State, ...] = ("att", "att-raw", "att-earlier", "ffn", "ffn-normed")


def paper_share(scale: Scale) -> float:
    """The share of zero rows nearest to the paper's 26 %."""
    return min(scale.zeros, key=lambda share: abs(share - 0.26))


def zeros(scale: Scale) -> Recipe:
    """F1: all-zero rows in the store × real and FAISS mask × L2 and IP; the paper's share for every
    seed."""
    rows = []
    for lm in scale.seeds:
        for metric in METRICS:
            for share in (0.0, *(scale.zeros if lm == "main" else (paper_share(scale),))):
                arm = replace(paper_arm(scale, lm), metric=metric, zeros=share)
                rows += [Evaluate(arm), Evaluate(exactly(arm))]
    return Recipe("audit-zeros", "Zero rows in the store (F1)", (), tuple(rows))


def sign(scale: Scale) -> Recipe:
    """F4: ffn and IP as it should be, and as committed: neighbours of the L2 index, farther ones
    weighted more. For every seed of the main LM."""
    arms: list[Arm] = []
    for lm in scale.seeds:
        ffn = replace(paper_arm(scale, lm), state="ffn")
        arms += [
            replace(ffn, metric="ip"),
            replace(exactly(ffn), metric="ip"),
            replace(ffn, score="flipped"),
            ffn,
        ]
    return Recipe(
        "audit-sign", "The sign of ffn with IP (F4)", (), tuple(Evaluate(a) for a in arms)
    )


def precision(scale: Scale) -> Recipe:
    """F6: real scores in fp16 and in fp32, on both masks."""
    arm = paper_arm(scale)
    rows = [
        Evaluate(replace(arm, mask=m, score=s))
        for m in ("faiss", "exact")
        for s in ("real", "half")
    ]
    return Recipe("audit-precision", "Real scores in fp16 (F6)", (), tuple(rows))


def norm(scale: Scale) -> Recipe:
    """Is it the layer or its LayerNorm? Five states, exact and with the index, for every seed of
    the main LM."""
    rows = []
    for lm in scale.seeds:
        for state in STATES:
            arm = replace(paper_arm(scale, lm), state=state)
            rows += [Evaluate(exactly(arm)), Evaluate(arm)]
    return Recipe("audit-norm", "The layer or its LayerNorm", (), tuple(rows))
