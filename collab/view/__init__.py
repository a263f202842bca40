"""A local page over many runs: list, filter, compare and open them, or follow running ones."""
