"""Pages, streams, episodes and results on the screen."""
