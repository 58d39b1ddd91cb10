"""Appendix E.5 and E.6: is kNN only another LM in an ensemble, a memory, or soft labels? And two
ensembles more."""

from dataclasses import replace

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Combined, Ensemble, Learned, Recipe
from knnlm_paper.scales import Scale


def with_lms(scale: Scale, count: int, knn: bool = False) -> Ensemble:
    """`main`, the first `count` of the further LMs, and neighbours or not."""
    others = tuple((lm, None) for lm in scale.ruled_out.ensemble[:count])
    return Ensemble(others, (exactly(paper_arm(scale)),) if knn else ())


def with_one(lm: str, step: int | None = None) -> Ensemble:
    """`main` and one further LM."""
    return Ensemble(((lm, step),))


def ensembles(scale: Scale) -> Recipe:
    """The main LM with each further LM; K LMs, K-1 with neighbours, and all of them with
    neighbours."""
    names = scale.ruled_out.ensemble
    rows = [with_one(lm) for lm in names]
    rows += [with_lms(scale, count) for count in range(2, len(names) + 1)]
    rows += [with_lms(scale, count, knn=True) for count in range(len(names) + 1)]
    labels = ("tab:ensembling", "fig:ensemble", "app:ensembling", "app:failed")
    return Recipe("ensembles", "Several LMs", labels, tuple(rows))


def memory_and_neighbours(scale: Scale) -> Ensemble:
    """The main LM, the one that memorised longest, and neighbours."""
    return replace(
        with_one("memorised", scale.lm("memorised").preset.keep[-1]),
        neighbours=(exactly(paper_arm(scale)),),
    )


def memorised(scale: Scale) -> Recipe:
    """The main LM with one that began as it and was trained on without dropout, at several updates;
    and at its last with neighbours."""
    rows = (
        *(with_one("memorised", step) for step in scale.lm("memorised").preset.keep),
        memory_and_neighbours(scale),
    )
    return Recipe(
        "memorised",
        "An LM that memorises",
        ("tab:overfit", "app:overfitting", "appendix E.6", "app:failed"),
        rows,
    )


def soft_labels(scale: Scale) -> Recipe:
    """The main LM with one that learned from it, from it with its neighbours, or (the same seed)
    from the text."""
    rows = tuple(with_one(lm) for lm in ("taught-by-lm", "taught-by-knn-lm", scale.seeds[1]))
    return Recipe(
        "soft-labels", "Soft labels", ("app:soft_label", "appendix E.6", "app:failed"), rows
    )


def two_stores(scale: Scale) -> Combined:
    """Neighbours by att and neighbours by ffn at once."""
    arm = exactly(paper_arm(scale))
    return Combined((), (arm, replace(arm, state="ffn")))


def with_head(scale: Scale, seed: int = 0) -> Combined:
    """Neighbours and a head on att at once."""
    return Combined((Learned(seed=seed),), (exactly(paper_arm(scale)),))


def together(scale: Scale) -> Recipe:
    """What the paper suggests but does not show: neighbours with a learned head, and both stores at
    once."""
    rows = (two_stores(scale), *(with_head(scale, seed) for seed in range(scale.learning.seeds)))
    return Recipe("together", "Two reasons at once", (), rows)
