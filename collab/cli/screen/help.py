"""A command's help where no terminal shows it: plain text under plain headings.

On a terminal typer draws it with rich, whose import takes most of the time of `--help`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

_MARKUP = re.compile(r"\[/?(?:bold)?\]")


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write what typer's own help says, panel by panel; `formatter` is that of the library."""
    formatter.width = ctx.terminal_width or 80
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    text = inspect.cleandoc(command.help or "")
    for line in _MARKUP.sub("", text).replace("\\[", "[").splitlines():
        formatter.write(f"{line}\n")
    for title, rows in _panels(command, ctx).items():
        formatter.write_paragraph()
        formatter.write_heading(title)
        with formatter.indentation():
            formatter.write_dl(rows)


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of each panel by its title: arguments, then options, then commands."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        own = "Arguments" if parameter.param_type_name == "argument" else "Options"
        if row := parameter.get_help_record(ctx):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(row)
    names = command.list_commands(ctx) if hasattr(command, "list_commands") else ()
    for name in names:
        below = command.get_command(ctx, name)
        panels.setdefault(below.rich_help_panel, []).append((name, below.help))
    return {title: rows for title, rows in panels.items() if rows}
