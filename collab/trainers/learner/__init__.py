"""Policies and their learning from samples; it uses torch, and knows nothing of runs."""
