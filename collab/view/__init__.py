"""A local page over many runs: list, filter, compare, open one, follow those at work.

`folders` is what may be read, `pages` are the reports of what was asked for, `server` answers.
"""

from collab.view.server import check_installed, serve

__all__ = ["check_installed", "serve"]
