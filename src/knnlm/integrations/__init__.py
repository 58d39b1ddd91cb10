"""kNN-LMs inside other people's programs: transformers and lm-evaluation-harness.

Each subpackage imports its library when it is imported itself, so that nobody pays for the others.
"""
