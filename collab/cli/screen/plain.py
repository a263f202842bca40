"""A page for a pipe: plain lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from collab.cli.screen.clean import clean
from collab.cli.screen.page import MARK, NAME, Block, Column, Piece


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
        self.line(f"{plain([mark]):<{MARK}}  {name:<{NAME}}  {text}")

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
