"""One self-contained HTML file about some runs: curves, comparisons and every episode."""

from collab.report.report import MOST_EPISODES, write_report

__all__ = ["MOST_EPISODES", "write_report"]
