"""Exact values and best play of the small games, found by trying all moves."""
