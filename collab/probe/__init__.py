"""Checks, before training, whether a team has anything to learn from."""
