"""Evaluation: teams side by side on the same tasks, in numbers with intervals, and reports."""
