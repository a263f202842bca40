"""Engines without a model: for tests, examples and demonstrations."""
