"""Trainers side by side at equal tokens: each cell is a training run in its own process."""
