"""A component that is not a mixture of others: any kind with a τ of its own. Knows nothing of files
or of mixtures."""

from knnlm.components.clusters import Clusters
from knnlm.components.head import Head
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP

Single = Head | MixtureOfSoftmaxes | MLP | Clusters


def width_of(part: Single) -> int:
    """Of all its states together."""
    if isinstance(part, MLP):
        return part.direct.shape[1]
    return (part.centroids if isinstance(part, Clusters) else part[1]).shape[1]
