"""Lists the shipped trainers' results on real models. docs/results_135m.md has the numbers."""

from __future__ import annotations

RESULTS = {
    "magrpo": "seven suites",
    "cross": "four suites",
    "rae": "Kuhn poker",
    "maac": "blocks2d",
}
"""Suites on which each trainer was measured, by the trainer's name."""
