"""Tables for a terminal, as wide as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from collab.cli.screen.clean import clean
from collab.cli.screen.fitting import Wish, fit
from collab.cli.screen.page import Column, Piece

if TYPE_CHECKING:
    from rich.console import RenderableType


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
