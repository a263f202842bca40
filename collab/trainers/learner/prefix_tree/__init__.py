"""Responses with a common beginning, laid out and read as one tree."""
