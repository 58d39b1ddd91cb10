"""What a search uses where nothing else is asked for, and what it accepts.

Light to import: the command line shows these numbers before NumPy or FAISS is loaded.
"""

K = 1024
"""Neighbors of each query, as in the paper."""
K_MAX = 4096
"""The most neighbors that a search returns."""
NPROBE = 32
"""Inverted lists that an index visits for each query, as in the paper's code."""
RECALL_FLOOR = 0.3
"""An index that finds less than this share of the true neighbors is refused."""
RECALL_K = K
"""Recall of a new index is recall@RECALL_K …"""
RECALL_QUERIES = 128
"""… over this many of its own entries as queries."""
