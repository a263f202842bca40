"""Policies and their learning from samples. This uses torch, and knows nothing of runs."""
