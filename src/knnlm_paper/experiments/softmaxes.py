"""Appendix C.2: mixtures of softmaxes, with the LM's output embedding or one of their own."""

from knnlm_paper.conditions import Learned
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """Every R over both states, with and without fine-tuned output embeddings."""
    conditions = [
        Learned(state=state, component="mixture-of-softmaxes", size=r, own_embedding=own)
        for state in STATES
        for own in (True, False)
        for r in scale.learning.softmaxes
    ]
    labels = ("tab:mos_results", "appendix C.2", "app:bottleneck-detail")
    return Experiment("softmaxes", "Mixtures of softmaxes", labels, tuple(conditions))
