"""A component that is not a mixture of others: any kind with a τ of its own. Knows nothing of files or of mixtures."""

from knnlm.components.clusters import Clusters
from knnlm.components.embeddings import Embeddings
from knnlm.components.network import Network
from knnlm.components.softmaxes import Softmaxes

Single = Embeddings | Softmaxes | Network | Clusters


def width_of(part: Single) -> int:
    """Of all its states together."""
    if isinstance(part, Network):
        return part.direct.shape[1]
    return (part.centroids if isinstance(part, Clusters) else part[1]).shape[1]
