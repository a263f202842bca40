"""What a run leaves: its folder, its files, and how they are read."""
