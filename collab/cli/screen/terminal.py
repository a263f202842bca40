"""A page for a terminal: colour, panels and tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from collab.cli.screen.page import MARK_WIDTH, NAME_WIDTH, Block, Column, Piece, PlainPage
from collab.cli.screen.streams import clean

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


SIDE_BY_SIDE = 110
"""Columns from which blocks stand next to each other."""


def open_page() -> PlainPage | TerminalPage:
    """The page that suits where stdout leads."""
    if not sys.stdout.isatty():
        return PlainPage(sys.stdout)
    from rich.console import Console

    beneath = getattr(sys.stdout, "beneath", sys.stdout)  # a page's own escapes are to get through
    return TerminalPage(Console(file=beneath, highlight=False, markup=False, emoji=False))


class TerminalPage:
    """Calm colours, as wide as the terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        console.push_render_hook(cast("RenderHook", CleanHook()))

    def live(self, render: Callable[[], RenderableType], **options: Any) -> Live:
        """A part below the page that is drawn anew, `render` by `render`; to be started."""
        from rich.live import Live

        return Live(console=self.console, get_renderable=lambda: Shown(render()), **options)

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
        grid.add_column(width=MARK_WIDTH)
        grid.add_column(width=max(NAME_WIDTH, len(name)))
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


LONG, LONG_WORD = 32, 16
"""Characters from which a text, such as a path, or a word of one that wraps may be folded."""


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
    """Minimum width of a column: its longest word if it may wrap, else its longest text."""
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


GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class Wish:
    """What a column asks for, in characters."""

    least: int
    """Below this a word or a number would be cut."""
    full: int
    rank: int = 0
    """Columns of higher rank are left out first; of equal ones the last."""


def fit(wishes: Sequence[Wish], width: int) -> list[int]:
    """The width of each column within `width` characters; 0 for one that is left out.

    The first column always stays.
    """
    kept = list(range(len(wishes)))
    while len(kept) > 1 and _total([wishes[n].least for n in kept]) > width:
        kept.remove(max(kept[1:], key=lambda n: (wishes[n].rank, n)))
    widths = {n: wishes[n].least for n in kept}
    _grow(widths, wishes, width)
    return [widths.get(n, 0) for n in range(len(wishes))]


def _grow(widths: dict[int, int], wishes: Sequence[Wish], width: int) -> None:
    """Give what is left to the columns that want more, always to the narrowest of them."""
    for _ in range(width - _total(list(widths.values()))):
        hungry = [n for n in widths if widths[n] < wishes[n].full]
        if not hungry:
            return
        widths[min(hungry, key=lambda n: widths[n])] += 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


class Shown:
    """A renderable whose text steers no terminal, whoever made it."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for text, style, control in console.render(self._inner, options):
            yield Segment(text if control else clean(text), _unlinked(style), control)


class CleanHook:
    """What is printed on the console, by whomever, is clean."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Shown(renderable) for renderable in renderables]


def _unlinked(style: Style | None) -> Style | None:
    return style.update_link(None) if style and style.link else style
