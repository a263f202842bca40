"""One self-contained HTML file about some runs: curves, comparisons and every episode."""

DEFAULT_MAX_EPISODES = 2000
"""Default number of episodes in a report."""
