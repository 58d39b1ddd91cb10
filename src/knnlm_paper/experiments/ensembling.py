"""Appendix E.5 and E.6: is kNN only another LM in an ensemble, a memory, or soft labels? And two
ensembles more."""

from dataclasses import replace

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import Combined, Ensemble, Learned
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def with_lms(scale: Scale, count: int, knn: bool = False) -> Ensemble:
    """`main`, the first `count` of the further LMs, and neighbors or not."""
    others = tuple(Checkpoint(lm) for lm in scale.ruled_out.ensemble[:count])
    return Ensemble(others, (exactly(paper_retrieval(scale)),) if knn else ())


def with_one(lm: str, step: int | None = None) -> Ensemble:
    """`main` and one further LM."""
    return Ensemble((Checkpoint(lm, step),))


def ensembles(scale: Scale) -> Experiment:
    """The main LM with each further LM; K LMs, K-1 with neighbors, and all of them with
    neighbors."""
    names = scale.ruled_out.ensemble
    conditions = [with_one(lm) for lm in names]
    conditions += [with_lms(scale, count) for count in range(2, len(names) + 1)]
    conditions += [with_lms(scale, count, knn=True) for count in range(len(names) + 1)]
    labels = ("tab:ensembling", "fig:ensemble", "app:ensembling", "app:failed")
    return Experiment("ensembles", "Several LMs", labels, tuple(conditions))


def memory_and_neighbors(scale: Scale) -> Ensemble:
    """The main LM, the one that memorized longest, and neighbors."""
    return replace(
        with_one("memorised", scale.lm("memorised").preset.keep[-1]),
        neighbors=(exactly(paper_retrieval(scale)),),
    )


def memorized(scale: Scale) -> Experiment:
    """The main LM with one that began as it and was trained on without dropout, at several updates;
    and at its last with neighbors."""
    conditions = (
        *(with_one("memorised", step) for step in scale.lm("memorised").preset.keep),
        memory_and_neighbors(scale),
    )
    return Experiment(
        "memorized",
        "An LM that memorizes",
        ("tab:overfit", "app:overfitting", "appendix E.6", "app:failed"),
        conditions,
    )


def soft_labels(scale: Scale) -> Experiment:
    """The main LM with one that learned from it, from it with its neighbors, or (the same seed)
    from the text."""
    lms = ("taught-by-lm", "taught-by-knn-lm", scale.seeds[1])
    conditions = tuple(with_one(lm) for lm in lms)
    return Experiment(
        "soft-labels", "Soft labels", ("app:soft_label", "appendix E.6", "app:failed"), conditions
    )


def two_stores(scale: Scale) -> Combined:
    """Neighbors by att and neighbors by ffn at once."""
    retrieval = exactly(paper_retrieval(scale))
    return Combined((), (retrieval, replace(retrieval, state="ffn")))


def with_head(scale: Scale, seed: int = 0) -> Combined:
    """Neighbors and a head on att at once."""
    return Combined((Learned(seed=seed),), (exactly(paper_retrieval(scale)),))


def together(scale: Scale) -> Experiment:
    """What the paper suggests but does not show: neighbors with a learned head, and both
    datastores at once."""
    heads = (with_head(scale, seed) for seed in range(scale.learning.seeds))
    conditions = (two_stores(scale), *heads)
    return Experiment("both-reasons", "Two reasons at once", (), conditions)
