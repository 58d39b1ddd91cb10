"""The audit: do confounds in the paper's own code explain its surprises? One experiment for each
that needs its own conditions.

τ = 1 against a tuned τ (F7), λ tuned on the reported split (F2) and perplexity per token or word
(F3) need none: every condition has all of these numbers."""

from dataclasses import replace

from knnlm.similarity import METRICS
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import Retrieval, Score, Search, State, exactly, paper_retrieval
from knnlm_paper.scales import Scale

STATES: tuple[State, ...] = ("att", "att-raw", "att-earlier", "ffn", "ffn-normed")


def paper_share(scale: Scale) -> float:
    """The share of zero entries nearest to the paper's 26 %."""
    return min(scale.zeros, key=lambda share: abs(share - 0.26))


def zeros(scale: Scale) -> Experiment:
    """F1: all-zero entries in the datastore × exact search and index × L2 and IP; the paper's share
    for every seed."""
    conditions = []
    for lm in scale.seeds:
        for metric in METRICS:
            for share in (0.0, *(scale.zeros if lm == "main" else (paper_share(scale),))):
                retrieval = replace(paper_retrieval(scale, lm), metric=metric, zeros=share)
                conditions += [KNN(retrieval), KNN(exactly(retrieval))]
    return Experiment("audit-zeros", "Zero entries in the datastore (F1)", (), tuple(conditions))


def sign(scale: Scale) -> Experiment:
    """F4: ffn and IP as it should be, and as committed: neighbors of the L2 index, farther ones
    weighted more. For every seed of the main LM."""
    retrievals: list[Retrieval] = []
    for lm in scale.seeds:
        ffn = replace(paper_retrieval(scale, lm), state="ffn")
        retrievals += [
            replace(ffn, metric="ip"),
            replace(exactly(ffn), metric="ip"),
            replace(ffn, score="flipped"),
            ffn,
        ]
    return Experiment(
        "audit-sign", "The sign of ffn with IP (F4)", (), tuple(KNN(a) for a in retrievals)
    )


def precision(scale: Scale) -> Experiment:
    """F6: exact scores in fp16 and in fp32, with the index and with exact search."""
    searches: tuple[Search, ...] = ("index", "exact")
    scores: tuple[Score, ...] = ("exact", "half")
    conditions = [
        KNN(replace(paper_retrieval(scale), search=search, score=score))
        for search in searches
        for score in scores
    ]
    return Experiment("audit-precision", "Exact scores in fp16 (F6)", (), tuple(conditions))


def norm(scale: Scale) -> Experiment:
    """Is it the layer or its LayerNorm? Five states, exact and with the index, for every seed of
    the main LM."""
    conditions = []
    for lm in scale.seeds:
        for state in STATES:
            retrieval = replace(paper_retrieval(scale, lm), state=state)
            conditions += [KNN(exactly(retrieval)), KNN(retrieval)]
    return Experiment("audit-norm", "The layer or its LayerNorm", (), tuple(conditions))
