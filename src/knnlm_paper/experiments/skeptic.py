"""What a skeptic asks: how many neighbors, which kind of approximation, fewer dimensions, and no
mask at all.

(The other baseline, a calibrated LM, is measured with every condition.)
"""

from dataclasses import replace

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import KNN, FullDatastore, NeighborCounts
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def neighbor_counts(scale: Scale) -> Experiment:
    """k from one to thousands, exact and approximate, all from one search each."""
    retrieval = replace(paper_retrieval(scale), k=max(scale.ks))
    return Experiment(
        "neighbor-counts",
        "How many neighbors",
        (),
        tuple(NeighborCounts(a, scale.ks) for a in (exactly(retrieval), retrieval)),
    )


def approximations(scale: Scale) -> Experiment:
    """Lists pruned without quantizing, quantized without pruning, and both: recall against
    perplexity."""
    conditions = tuple(
        KNN(replace(paper_retrieval(scale), factory=factory, nprobe=nprobe))
        for factory, nprobe in scale.factories
    )
    return Experiment("approximations", "Which approximation", (), conditions)


def full_datastore(scale: Scale) -> Experiment:
    """All entries of the datastore vote, which is where k ends; for every seed of the main LM."""
    conditions = tuple(
        FullDatastore(Checkpoint(lm), state) for lm in scale.seeds for state in STATES
    )
    return Experiment("full-datastore", "All entries vote, without a mask", (), conditions)


def components(scale: Scale) -> Experiment:
    """Keys reduced by PCA, as He et al. (2021) did from 1024 to 512 dimensions; for every seed of
    the main LM."""
    retrievals = [
        replace(exactly(paper_retrieval(scale, lm)), width=w)
        for lm in scale.seeds
        for w in scale.components
    ]
    return Experiment(
        "components", "Keys of fewer dimensions", (), tuple(KNN(a) for a in retrievals)
    )
