"""Models in this process, run by transformers."""
