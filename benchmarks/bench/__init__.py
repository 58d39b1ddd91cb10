"""`make bench`: ours beside its rivals and beside the machine's limits, in one run."""
