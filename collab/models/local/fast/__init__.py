"""What only makes a local model faster; the engine works without any of it."""
