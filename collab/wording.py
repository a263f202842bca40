"""Small pieces of plain English for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun, e.g. `1 step`, `1,024 steps`, `0 new tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def option(name: str, value: object = "") -> str:
    """An option for both faces, e.g. `--out FOLDER (in Python: out=)`."""
    shown = f"--{name} {value}".rstrip()
    return f"{shown} (in Python: {name.replace('-', '_')}=)"
