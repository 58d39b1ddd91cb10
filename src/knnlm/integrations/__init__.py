"""Other people's programs with a kNN-LM inside: lm-evaluation-harness.

Each module imports its library when it is imported itself, so that nobody pays for the others.
"""
