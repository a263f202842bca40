"""Responses that begin alike, laid out and read as one tree."""
