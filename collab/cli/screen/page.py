"""Where a command writes: a terminal gets colour, panels and tables, a pipe plain lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO, cast

from collab.cli.screen.fitting import Wish, fit

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        ConsoleRenderable,
        RenderableType,
        RenderHook,
        RenderResult,
    )
    from rich.live import Live
    from rich.style import Style

Piece = str | tuple[str, str]
"""A text, or a text and its style; plain pages leave styles out."""

SIDE_BY_SIDE = 110
"""Columns from which blocks stand next to each other."""

MARK, NAME = 2, 18
"""Columns of the mark and of the name of an entry."""

LONG, LONG_WORD = 32, 16
"""Characters from which a text, such as a path, or a word of one that wraps may be folded."""

STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, marks of direction, separators, and what is not seen at all."""


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


def clean(text: str) -> str:
    """The text with a name in place of each character that steers what is around it.

    What a model, a server or a file says may hold such characters.
    """
    return STEERING.sub(lambda found: _name(ord(found.group())), text.replace("\r\n", "\n"))


def _name(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(pieces: Sequence[Piece]) -> str:
    return clean("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces))


def open_page(stream: TextIO | None = None) -> PlainPage | TerminalPage:
    """A page on stdout, or on another stream."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return PlainPage(stream)
    from rich.console import Console

    beneath = getattr(stream, "beneath", stream)  # a page's own escapes are to get through
    return TerminalPage(Console(file=beneath, highlight=False, markup=False, emoji=False))


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


class TerminalPage:
    """Calm colours, as wide as the terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        console.push_render_hook(cast("RenderHook", _CleanHook()))

    def live(self, render: Callable[[], RenderableType], **options: Any) -> Live:
        """A part below the page that is drawn anew, `render` by `render`; to be started."""
        from rich.live import Live

        return Live(console=self.console, get_renderable=lambda: _Clean(render()), **options)

    def line(self, *pieces: Piece) -> None:
        from rich.padding import Padding
        from rich.text import Text

        parts = [clean(p) if isinstance(p, str) else (clean(p[0]), p[1]) for p in pieces]
        text = Text.assemble(*parts)
        indent = len(text.plain) - len(text.plain.lstrip())
        self.console.print(Padding(text[indent:], (0, 0, 0, indent)) if indent else text)

    def heading(self, title: str) -> None:
        from rich.rule import Rule
        from rich.text import Text

        self.console.print(Rule(Text(clean(title), "bold"), align="left", style="dim"))

    def entry(self, mark: Piece, name: str, text: str) -> None:
        from rich.table import Table
        from rich.text import Text

        told, style = (mark, "") if isinstance(mark, str) else mark
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=MARK)
        grid.add_column(width=max(NAME, len(name)))
        grid.add_column(overflow="fold")
        grid.add_row(Text(told, style), Text(clean(name)), Text(clean(text), "dim"))
        self.console.print(grid)

    def blocks(self, blocks: Sequence[Block]) -> None:
        from rich.table import Table

        if self.console.width < SIDE_BY_SIDE or len(blocks) < 2:
            for block in blocks:
                self.console.print(_panel(block))
            return
        grid = Table.grid(padding=(0, 1), expand=True)
        for _ in blocks[:2]:
            grid.add_column(ratio=1)
        for first in range(0, len(blocks), 2):
            grid.add_row(*map(_panel, blocks[first : first + 2]))
        self.console.print(grid)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Piece]]) -> None:
        from rich.text import Text

        table, left_out = fitted_table(columns, rows, self.console.width)
        self.console.print("", table, sep="\n")
        if left_out:
            told = f"no room at {self.console.width} columns for: {', '.join(left_out)}"
            self.console.print(Text(told, "dim"))
        self.console.print()


def fitted_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Piece]], width: int
) -> tuple[RenderableType, list[str]]:
    """A table for a terminal of `width` columns, and the titles of what is left out of it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    texts = [[Text(clean(text), style) for text, style in row] for row in cells]
    wishes = [_wish(column, [row[n].plain for row in texts]) for n, column in enumerate(columns)]
    widths = fit(wishes, width)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_header=any(column.title for column in columns),
        show_edge=False,
        header_style="dim",
        border_style="dim",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    kept = [n for n, width in enumerate(widths) if width]
    for n in kept:
        justify: Literal["left", "right"] = "right" if columns[n].right else "left"
        table.add_column(
            Text(clean(columns[n].title)),
            justify=justify,
            style=columns[n].style,
            width=widths[n],
            overflow="fold",
        )
    for row in texts:
        table.add_row(*[row[n] for n in kept])
    return table, [columns[n].title or "text" for n, width in enumerate(widths) if not width]


def _wish(column: Column, texts: Sequence[str]) -> Wish:
    """What a column needs: its longest word where it may wrap, else all of its text."""
    from rich.cells import cell_len

    lines = [line for text in (column.title, *texts) for line in text.splitlines()]
    full = max(map(cell_len, lines), default=0)
    if column.wrap:
        least = max((cell_len(word) for line in lines for word in line.split()), default=0)
    else:
        least = full
    if not column.right:  # numbers are never folded
        least = min(least, LONG_WORD if column.wrap else LONG)
    return Wish(least=max(least, 1), full=max(full, 1), rank=column.rank)


class _Clean:
    """A renderable whose text steers no terminal, whoever made it."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for text, style, control in console.render(self._inner, options):
            yield Segment(text if control else clean(text), _unlinked(style), control)


class _CleanHook:
    """What is printed on the console, by whomever, is clean."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Clean(renderable) for renderable in renderables]


def _unlinked(style: Style | None) -> Style | None:
    return style.update_link(None) if style and style.link else style


def _panel(block: Block) -> RenderableType:
    from rich import box
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.text import Text

    text = clean(block.text.strip("\n"))
    body: RenderableType = Text(text or "(empty)", style="" if text else "dim")
    if text and block.language != "text":
        body = Syntax(
            text, block.language, theme="ansi_dark", background_color="default", word_wrap=True
        )
    title = Text(clean(block.title))
    return Panel(
        body, title=title, title_align="left", border_style="dim", box=box.ROUNDED, padding=(0, 1)
    )
