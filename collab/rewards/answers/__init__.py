"""Rewards for answers that are right or wrong, e.g. in mathematics."""
