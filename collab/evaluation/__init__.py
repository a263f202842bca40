"""Evaluation: teams compared on the same tasks, in numbers with intervals."""
