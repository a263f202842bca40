"""Evaluation: teams compared on the same tasks, in numbers with intervals."""

DEFAULT_K = (1, 3, 5, 10)
"""Default values of k for pass@k and best of k, if there are as many samples."""
