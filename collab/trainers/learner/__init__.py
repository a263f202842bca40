"""Policies, and how they learn from samples. It uses torch, and knows nothing about runs."""
