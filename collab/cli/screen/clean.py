"""What may be shown: characters that steer a terminal are told by their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        ConsoleRenderable,
        RenderableType,
        RenderResult,
    )
    from rich.style import Style


STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, marks of direction, separators, and what is not seen at all."""


def clean(text: str) -> str:
    """The text with a name in place of each character that steers what is around it.

    What a model, a server or a file says may hold such characters.
    """
    return STEERING.sub(lambda found: _name(ord(found.group())), text.replace("\r\n", "\n"))


def _name(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


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
