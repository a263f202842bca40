"""A local page over many runs: list, filter, compare and open them, or follow running ones.

`folders` finds the runs that may be read, and `server` serves the list and the reports.
"""

from collab.view.server import check_installed, serve

__all__ = ["check_installed", "serve"]
