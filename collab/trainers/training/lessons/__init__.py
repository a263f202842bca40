"""What a run learns from: which tasks, when, and episodes that were played before."""
