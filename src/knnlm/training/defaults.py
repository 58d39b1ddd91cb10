"""The component that is made of a datastore by default: which kind, how large, and how fast it
learns.

Light to import, because the help of the command line says it too."""

KIND = "clusters"
"""Of the kinds that were measured it has the most of the neighbors' gain (docs/LOG.md)."""
CLUSTERS_PER_TOKEN, ENTRIES_PER_CLUSTER, MAX_CLUSTERS = 2, 32, 8192
"""Limits on the number of clusters, of which the lowest holds; the time of k-means grows with its
square."""
MLP_WIDTHS = 4
"""Inner width of an MLP, in widths of a hidden state."""
LEARNING_RATES = {"embeddings": 1e-4, "softmaxes": 3e-5, "network": 3e-5, "clusters": 1e-4}
"""By kind: the best on validation text for att states ("Learning rates" in docs/results/laptop)."""


def default_size(kind: str, entries: int, vocab_size: int, width: int) -> int:
    """The size of a component of that kind.

    Args:
        kind: The kind of component.
        entries: Entries of the datastore.
        vocab_size: Tokens in the vocabulary.
        width: Numbers in a hidden state.
    """
    clusters = min(CLUSTERS_PER_TOKEN * vocab_size, entries // ENTRIES_PER_CLUSTER, MAX_CLUSTERS)
    return {
        "embeddings": 1,
        "softmaxes": 2,
        "network": MLP_WIDTHS * width,
        "clusters": max(1, clusters),
    }[kind]
