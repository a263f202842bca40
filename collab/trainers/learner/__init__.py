"""Policies and how they learn from samples; knows torch, and no run."""
