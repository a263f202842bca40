"""A multi-agent collaboration runtime whose agents can be trained."""
