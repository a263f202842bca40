"""Follows a run, a training or an evaluation while it is running."""
