"""Rewards for texts that belong together, e.g. a short and a long summary, and for names."""
