"""Appendix E.1 to E.4: is it the metric, sparsity, the place in the text, or tokens that the LM
can never choose?"""

from dataclasses import replace

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import PlaceInText, Reachability, TokenList
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.retrieval import State, exactly, paper_retrieval
from knnlm_paper.scales import Scale


def by_distance(scale: Scale, state: State, lm: str = "main") -> TokenList:
    """Retrieved tokens, scored by L2 to the LM's output embedding."""
    retrieval = replace(exactly(paper_retrieval(scale, lm)), state=state)
    return TokenList(
        lm=Checkpoint(lm), retrieved=retrieval, k=scale.k, score="distance", duplicates=False
    )


def by_choice(scale: Scale, duplicates: bool, lm: str = "main") -> TokenList:
    """Retrieved tokens, scored by the LM itself."""
    retrieved = exactly(paper_retrieval(scale, lm))
    return TokenList(lm=Checkpoint(lm), retrieved=retrieved, k=scale.k, duplicates=duplicates)


def metric(scale: Scale) -> Experiment:
    """E.1, for every seed of the main LM."""
    conditions = tuple(by_distance(scale, state, lm) for lm in scale.seeds for state in STATES)
    return Experiment(
        "metric", "Two metrics instead of one", ("app:dist_metric", "app:failed"), conditions
    )


def sparsity(scale: Scale) -> Experiment:
    """E.2: the LM's own likeliest tokens, and the retrieved ones with and without duplicates; for
    every seed."""
    conditions: list[TokenList] = []
    for lm in scale.seeds:
        conditions += [TokenList(lm=Checkpoint(lm), k=k) for k in scale.ruled_out.lists]
        conditions += [by_choice(scale, duplicates, lm) for duplicates in (True, False)]
    return Experiment(
        "sparsity", "A sparse distribution", ("app:sparsification", "app:failed"), tuple(conditions)
    )


def location(scale: Scale) -> Experiment:
    """E.3, for every seed."""
    conditions = tuple(PlaceInText(exactly(paper_retrieval(scale, lm))) for lm in scale.seeds)
    return Experiment(
        "location", "The place in the text", ("appendix E.3", "app:failed"), conditions
    )


def stolen(scale: Scale) -> Experiment:
    """E.4: the main LM, its other seeds, and the narrowest LM, whose tokens have least room."""
    narrowest = min(scale.widths, key=lambda lm: scale.shape(lm).width)
    conditions = tuple(
        Reachability(Checkpoint(lm)) for lm in dict.fromkeys((*scale.seeds, narrowest))
    )
    return Experiment(
        "stolen", "Stolen probabilities", ("app:stolen_prob", "app:failed"), conditions
    )
