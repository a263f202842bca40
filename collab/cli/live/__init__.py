"""Follows a run, a training run or an evaluation while it is running."""
