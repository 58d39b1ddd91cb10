"""kNN-LMs inside other people's programs: lm-evaluation-harness.

Each module imports its library when it is imported itself, so that nobody pays for the others.
"""
