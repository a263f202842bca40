"""Small pieces of plain English for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun, e.g. `1 step`, `1,024 steps`, `0 new tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
