"""Figures: perplexity against τ for each search and score, on a small part of the datastore and
on all of it."""

from dataclasses import replace

from knnlm_paper.conditions import TemperatureCurve
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.recompute import four
from knnlm_paper.retrieval import paper_retrieval
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """The four retrievals at both sizes."""
    conditions = [
        TemperatureCurve(retrieval)
        for fraction in (scale.small, 1.0)
        for retrieval in four(replace(paper_retrieval(scale), fraction=fraction))
    ]
    labels = ("fig:small_temperature", "fig:full_temperature", "fig:temperature")
    return Experiment("temperature", "The retrieval temperature", labels, tuple(conditions))
