"""What is made of a store where nothing else is asked for: which kind, how large, and how fast it
learns.

Light to import, since the command line's help says it too. Knows no store.
"""

KIND = "clusters"
"""Of the kinds that were measured it has the most of the neighbours' gain (docs/LOG.md)."""
CLUSTERS_A_WORD, ROWS_A_CLUSTER, MOST_CLUSTERS = 2, 32, 8192
"""Clusters: the least of these; k-means takes a time that grows with their square."""
WIDTHS = 4
"""Inner width of a network, in widths of a state."""
RATES = {"embeddings": 1e-4, "softmaxes": 3e-5, "network": 3e-5, "clusters": 1e-4}
"""Learning rates that were best on validation text for states of att ("Learning rates" in
docs/results/laptop)."""


def default_size(kind: str, rows: int, words: int, width: int) -> int:
    """The size of a substitute for a store of so many rows, words and numbers in a state."""
    clusters = min(CLUSTERS_A_WORD * words, rows // ROWS_A_CLUSTER, MOST_CLUSTERS)
    return {
        "embeddings": 1,
        "softmaxes": 2,
        "network": WIDTHS * width,
        "clusters": max(1, clusters),
    }[kind]
