"""Where the shipped trainers have a result on a real model; docs/results.md has the numbers."""

from __future__ import annotations

RESULTS = {
    "magrpo": "seven tasks",
    "cross": "four tasks",
    "rae": "Kuhn poker",
    "maac": "blocks2d",
}
"""The tasks that each trainer was measured on, by the trainer's name."""
