"""Figure and appendix B: n embeddings for each token, one recipe for all n."""

from knnlm_paper.conditions import Learned
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.scales import Scale


def experiment(scale: Scale) -> Experiment:
    """Every n over both states, for every seed."""
    points = scale.learning
    conditions = [
        Learned(state=state, seed=seed, size=n)
        for n in points.sizes
        for state in STATES
        for seed in range(points.seeds_of_largest if n == points.sizes[-1] else points.seeds)
    ]
    labels = (
        "fig:increasing_embedding_size",
        "tab:softmax_bottleneck",
        "app:detail_result_increasing_nv",
    )
    return Experiment("capacity", "More embeddings for each token", labels, tuple(conditions))
