"""Appendix E.1 to E.4: is it the metric, sparsity, the place in the text, or words that the LM can
never choose?"""

from dataclasses import replace

from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.rows import Listed, Location, Reach, Recipe, State
from knnlm_paper.scales import Scale


def by_distance(scale: Scale, state: State, lm: str = "main") -> Listed:
    """Retrieved words, scored by L2 to the LM's output embedding."""
    arm = replace(exactly(paper_arm(scale, lm)), state=state)
    return Listed(of=lm, retrieved=arm, k=scale.k, score="distance", duplicates=False)


def by_choice(scale: Scale, duplicates: bool, lm: str = "main") -> Listed:
    """Retrieved words, scored by the LM itself."""
    return Listed(of=lm, retrieved=exactly(paper_arm(scale, lm)), k=scale.k, duplicates=duplicates)


def metric(scale: Scale) -> Recipe:
    """E.1, for every seed of the main LM."""
    rows = tuple(by_distance(scale, state, lm) for lm in scale.seeds for state in STATES)
    return Recipe("metric", "Two metrics instead of one", ("app:dist_metric", "app:failed"), rows)


def sparsity(scale: Scale) -> Recipe:
    """E.2: the LM's own likeliest words, and the retrieved ones with and without duplicates; for
    every seed."""
    rows: list[Listed] = []
    for lm in scale.seeds:
        rows += [Listed(of=lm, k=k) for k in scale.ruled_out.lists]
        rows += [by_choice(scale, duplicates, lm) for duplicates in (True, False)]
    return Recipe(
        "sparsity", "A sparse distribution", ("app:sparsification", "app:failed"), tuple(rows)
    )


def location(scale: Scale) -> Recipe:
    """E.3, for every seed."""
    rows = tuple(Location(exactly(paper_arm(scale, lm))) for lm in scale.seeds)
    return Recipe("location", "The place in the text", ("appendix E.3", "app:failed"), rows)


def stolen(scale: Scale) -> Recipe:
    """E.4: the main LM, its other seeds, and the narrowest LM, whose words have least room."""
    narrowest = min(scale.widths, key=lambda lm: scale.shape(lm).width)
    rows = tuple(Reach(lm) for lm in dict.fromkeys((*scale.seeds, narrowest)))
    return Recipe("stolen", "Stolen probabilities", ("app:stolen_prob", "app:failed"), rows)
