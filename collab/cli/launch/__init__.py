"""Passes a training run to a cluster's scheduler."""
