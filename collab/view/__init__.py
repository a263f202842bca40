"""A local page over many runs: list, filter, compare and open them, or follow running ones."""

from collab.view.server import check_installed, serve

__all__ = ["check_installed", "serve"]
