"""What is used where nothing else is asked for: one place, light to import.

The command line shows these numbers before NumPy, torch or FAISS is loaded.
"""

K = 1024
"""Neighbors of each query, as in the paper."""
K_MAX = 4096
"""The most neighbors that a search returns."""
NPROBE = 32
"""Inverted lists that an index of a named factory visits for each query, as in the paper's code."""
RECALL = 0.95
"""The recall@1024 that the default index is searched with."""
RECALL_FLOOR = 0.3
"""An index that finds less than this share of the true neighbors is refused."""
MANY_ENTRIES = 1_000_000
"""From here on an index is advised. Exact search of 300,000 entries of width 768 takes 22 ms for
one query and 5 s for 2,048, so with fewer entries an index saves little and costs recall."""
RECALL_K = K
"""Recall of a new index is recall@RECALL_K …"""
RECALL_QUERIES = 128
"""… over this many of its own entries as queries."""
COMPONENT_KIND = "clusters"
"""Of the kinds that were measured it has the most of the neighbors' gain (docs/LOG.md)."""
CLUSTERS_PER_TOKEN, ENTRIES_PER_CLUSTER, MAX_CLUSTERS = 2, 32, 8192
"""Clusters: the least of these; the time of k-means grows with their square."""
MLP_WIDTHS = 4
"""Inner width of an MLP, in widths of a hidden state."""
