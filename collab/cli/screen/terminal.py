"""A page for a terminal: colour, panels and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from collab.cli.screen.clean import CleanHook, Shown, clean
from collab.cli.screen.page import MARK, NAME, Block, Column, Piece
from collab.cli.screen.tables import fitted_table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType, RenderHook
    from rich.live import Live


SIDE_BY_SIDE = 110
"""Columns from which blocks stand next to each other."""


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
