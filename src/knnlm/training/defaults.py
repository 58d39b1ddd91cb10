"""Which component is distilled where nothing else is asked for, how large, and how fast it learns.

Light to import, because the command line's help says it too.
"""

KIND = "clusters"
"""Of the kinds that were measured it has the most of the neighbors' gain (docs/LOG.md)."""
CLUSTERS_PER_TOKEN, ENTRIES_PER_CLUSTER, MAX_CLUSTERS = 2, 32, 8192
"""Clusters: the least of these; the time of k-means grows with their square."""
MLP_WIDTHS = 4
"""Inner width of an MLP, in widths of a hidden state."""
LEARNING_RATES = {"head": 1e-4, "mixture-of-softmaxes": 3e-5, "mlp": 3e-5, "clusters": 1e-4}
"""Learning rates that were best on validation text for att ("Learning rates" in
docs/results/laptop)."""


def default_size(kind: str, entries: int, vocab_size: int, width: int) -> int:
    """The size of a component for a datastore of so many entries with hidden states of `width`."""
    clusters = min(CLUSTERS_PER_TOKEN * vocab_size, entries // ENTRIES_PER_CLUSTER, MAX_CLUSTERS)
    sizes = {
        "head": 1,
        "mixture-of-softmaxes": 2,
        "mlp": MLP_WIDTHS * width,
        "clusters": max(1, clusters),
    }
    return sizes[kind]
