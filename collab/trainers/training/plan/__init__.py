"""Estimates the steps, tokens, memory and disk space of a training run before it begins."""
