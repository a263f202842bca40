"""What a command writes on: lines, blocks and tables, wherever they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Piece = str | tuple[str, str]
"""A text, or a text and its style; plain pages leave styles out."""


MARK, NAME = 2, 18
"""Columns of the mark and of the name of an entry."""


@dataclass(frozen=True)
class Column:
    title: str
    right: bool = False
    style: str = ""
    wrap: bool = False
    rank: int = 0
    """On a terminal that is too narrow, columns of higher rank are left out first."""


@dataclass(frozen=True)
class Block:
    """A text of several lines under a title, e.g. one agent's code."""

    title: str
    text: str
    language: str = "python"
    """What to highlight it as; `text` for nothing."""


class Page(Protocol):
    def line(self, *pieces: Piece) -> None: ...

    def heading(self, title: str) -> None: ...

    def entry(self, mark: Piece, name: str, text: str) -> None:
        """One line of a list that is shown as it grows: a mark, a name, and what is told of it."""

    def blocks(self, blocks: Sequence[Block]) -> None: ...

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Piece]]) -> None: ...
