"""What a reader sees: pages, tables and streams, and an episode on a page."""
