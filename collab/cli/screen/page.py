"""A page of lines, blocks and tables: plain in pipes and files, colored on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from collab.errors import RecipeError
from collab.wording import align_rows, escape_controls

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        ConsoleRenderable,
        RenderableType,
        RenderHook,
        RenderResult,
    )

    from collab.recipe.library import ComponentKind

GOOD, BAD, WARN, DIM, BOLD = "green", "red", "yellow", "dim", "bold"
"""Styles, by their meaning."""

RIGHT_ALIGNED = ">"
"""First character in the title of a right-aligned column."""

Piece = str | tuple[str, str]
"""A string, or a string and its style. Plain pages omit styles."""

WARNING: Piece = ("warning: ", f"bold {WARN}")
"""Start of a line with a warning."""

SIDE_BY_SIDE_WIDTH = 110
"""Minimum number of columns for a terminal to show two blocks next to each other."""


Columns = Sequence[str]
"""Titles of a table's columns. A column `>title` is right-aligned and does not wrap."""


@dataclass(frozen=True)
class Block:
    """A text of several lines under a title, e.g. one agent's code."""

    title: str
    text: str
    language: str = "python"
    """The language for highlighting, or `text` for none."""


def open_page() -> Page:
    """Return a terminal page if stdout is a terminal, otherwise a plain one."""
    if not sys.stdout.isatty():
        return PlainPage(sys.stdout)
    from rich.console import Console

    # The page cleans its own strings, so its colors reach the terminal.
    console_stream = getattr(sys.stdout, "wrapped", sys.stdout)
    return TerminalPage(Console(file=console_stream, highlight=False, markup=False, emoji=False))


def show_components(
    kind: ComponentKind,
    columns: Columns,
    row: Callable[[Path], Sequence[Any]],
    *remarks: str,
    json: bool,
) -> None:
    """Print all components of a kind, as a table or as JSON lines. `row` maps a component's file to
    the values after its name. The last one is the description; a table has its first sentence.
    """
    from collab.recipe.library import components

    rows: list[list[Piece]] = []
    for name, path in components(kind):
        try:
            *values, description = row(path)
        except RecipeError as error:
            values, description = [None] * (len(columns) - 2), f"broken: {error}"
        if json:
            keys = [column.removeprefix(RIGHT_ALIGNED) for column in columns]
            print(dumps(dict(zip(keys, [name, *values, description], strict=True))))
        first = re.split(r"(?<=\.)(?<!Dr\.)\s+(?=[A-Z])", description)[0]
        last = (first, BAD if first.startswith("broken: ") else "")
        rows.append([(name, BOLD), *map(_cell, values), last])
    if json:
        return
    page = open_page()
    page.table(columns, rows)
    for remark in remarks:
        page.line((remark, DIM))


def _cell(value: Any) -> str:
    return "-" if value is None else ", ".join(value) if isinstance(value, list) else str(value)


def plain_text(pieces: Sequence[Piece]) -> str:
    """Return the pieces as one unstyled text."""
    return escape_controls(
        "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)
    )


class PlainPage:
    """A plain page: complete, without color, one line per item."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, *pieces: Piece) -> None:
        """Print a line of text."""
        print(plain_text(pieces).rstrip(), file=self._stream, flush=True)

    def heading(self, title: str) -> None:
        self.line("== ", title)

    def blocks(self, blocks: Sequence[Block]) -> None:
        """Print blocks of text, each under its title."""
        for block in blocks:
            self.line("-- ", block.title)
            self.line(block.text.strip("\n"))

    def table(self, columns: Columns, rows: Sequence[Sequence[Piece]]) -> None:
        """Print a table with a header."""
        titles = [column.removeprefix(RIGHT_ALIGNED) for column in columns]
        cells = [titles] if any(titles) else []
        cells += [[plain_text([cell]).replace("\n", " ") for cell in row] for row in rows]
        for line in align_rows(cells, [column.startswith(RIGHT_ALIGNED) for column in columns]):
            self.line(line)


class TerminalPage:
    """A page in calm colors, as wide as the terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        console.push_render_hook(cast("RenderHook", CleanHook()))

    def line(self, *pieces: Piece) -> None:
        from rich.padding import Padding
        from rich.text import Text

        text = Text.assemble(*map(_clean_piece, pieces))
        indent = len(text.plain) - len(text.plain.lstrip())
        self.console.print(Padding(text[indent:], (0, 0, 0, indent)) if indent else text)

    def heading(self, title: str) -> None:
        from rich.rule import Rule
        from rich.text import Text

        self.console.print(Rule(Text(escape_controls(title), "bold"), align="left", style="dim"))

    def blocks(self, blocks: Sequence[Block]) -> None:
        from rich.table import Table

        if self.console.width < SIDE_BY_SIDE_WIDTH or len(blocks) < 2:
            for block in blocks:
                self.console.print(_panel(block))
            return
        grid = Table.grid(padding=(0, 1), expand=True)
        for _ in blocks[:2]:
            grid.add_column(ratio=1)
        for first in range(0, len(blocks), 2):
            grid.add_row(*map(_panel, blocks[first : first + 2]))
        self.console.print(grid)

    def table(self, columns: Columns, rows: Sequence[Sequence[Piece]]) -> None:
        """Show a table. Long cells continue on the next line, and nothing is omitted."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=box.SIMPLE_HEAD,
            show_header=any(columns),
            show_edge=False,
            header_style="dim",
            border_style="dim",
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for column in columns:
            table.add_column(
                Text(escape_controls(column.removeprefix(RIGHT_ALIGNED))),
                justify="right" if column.startswith(RIGHT_ALIGNED) else "left",
                no_wrap=column.startswith(RIGHT_ALIGNED),
                overflow="fold",
            )
        for row in rows:
            table.add_row(*[Text.assemble(_clean_piece(cell)) for cell in row])
        self.console.print("", table, "", sep="\n")


Page = PlainPage | TerminalPage


def _clean_piece(piece: Piece) -> Piece:
    return (
        escape_controls(piece) if isinstance(piece, str) else (escape_controls(piece[0]), piece[1])
    )


def _panel(block: Block) -> RenderableType:
    from rich import box
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.text import Text

    text = escape_controls(block.text.strip("\n"))
    body: RenderableType = Text(text or "(empty)", style="" if text else "dim")
    if text and block.language != "text":
        body = Syntax(
            text, block.language, theme="ansi_dark", background_color="default", word_wrap=True
        )
    title = Text(escape_controls(block.title))
    return Panel(
        body, title=title, title_align="left", border_style="dim", box=box.ROUNDED, padding=(0, 1)
    )


class CleanRenderable:
    """A renderable whose text cannot send control codes to the terminal."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for text, style, control in console.render(self._renderable, options):
            unlinked = style.update_link(None) if style and style.link else style
            yield Segment(text if control else escape_controls(text), unlinked, control)


class CleanHook:
    """Removes terminal control codes from everything that the console prints."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [CleanRenderable(renderable) for renderable in renderables]
