"""A page of lines, blocks and tables, and its plain form for pipes and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from collab.cli.screen.streams import clean

GOOD, BAD, WARN, DIM, NAME = "green", "red", "yellow", "dim", "bold"
"""Styles, by their meaning."""

Piece = str | tuple[str, str]
"""A text, or a text and its style; plain pages leave styles out."""


MARK_WIDTH, NAME_WIDTH = 2, 18
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


def plain(pieces: Sequence[Piece]) -> str:
    return clean("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces))


class PlainPage:
    """Complete, without colour, one line for one thing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, *pieces: Piece) -> None:
        print(plain(pieces).rstrip(), file=self._stream, flush=True)

    def heading(self, title: str) -> None:
        self.line("== ", title)

    def entry(self, mark: Piece, name: str, text: str) -> None:
        self.line(f"{plain([mark]):<{MARK_WIDTH}}  {name:<{NAME_WIDTH}}  {text}")

    def blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self.line("-- ", block.title)
            self.line(block.text.strip("\n"))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Piece]]) -> None:
        titles = [column.title for column in columns]
        cells = [titles] if any(titles) else []
        cells += [[plain([cell]).replace("\n", " ") for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = [
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(row, widths, columns, strict=True)
            ]
            self.line("  ".join(padded))
