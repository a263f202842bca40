"""A cooperation scheme that a program shows, and where."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMES = (
    "redefined",
    "unused",
    "ignored",
    "fallback",
    "filter",
    "coordinator",
    "decorator",
    "wrapper",
)
"""Where several match, the first one is the program's."""


@dataclass(frozen=True)
class Match:
    name: str
    lines: tuple[int, ...]
    """Lines that call the helper or use its value, 1-based."""
    why: str


def match(name: str, lines: set[int], why: str) -> Match:
    return Match(name, tuple(sorted(lines)), why)
