"""Figures: perplexity against the size of the datastore, with an index and with exact
search."""

from dataclasses import replace

from knnlm_paper.conditions import KNN
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.recompute import four
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import Scale


def retrievals(scale: Scale, fraction: float, draw: int, lm: str = "main") -> tuple[Retrieval, ...]:
    """The paper's three settings on one random part of the datastore."""
    return four(replace(paper_retrieval(scale, lm), fraction=fraction, draw=draw))[:3]


def compared(scale: Scale) -> tuple[float, float, float]:
    """The fractions that claims are about: the smallest, the one nearest to a half, the last below
    all."""
    middle = min(scale.fractions, key=lambda fraction: abs(fraction - 0.5))
    return scale.fractions[0], middle, scale.fractions[-2]


def experiment(scale: Scale) -> Experiment:
    """Every fraction, several random parts of each, the whole store once; for further seeds of the
    main LM the fractions that claims are about."""
    conditions = [
        KNN(retrieval)
        for lm in scale.seeds
        for fraction in scale.fractions
        if lm == "main" or fraction in (*compared(scale), 1.0)
        for draw in range(scale.draws if fraction < 1 else 1)
        for retrieval in retrievals(scale, fraction, draw, lm)
    ]
    labels = ("fig:subsample_dstore_only", "fig:datastore_size")
    return Experiment("sizes", "How large the datastore is", labels, tuple(conditions))
