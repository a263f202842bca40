"""What a run leaves: its files by name, and how they are written and read."""
