"""Every command on a page exists in collab and has the options shown."""

import re
import shlex
from pathlib import Path
from typing import Any

from support.blocks import DOCS
from typer import Context
from typer.main import get_command

from collab.cli.app import COMMANDS, app

PAGES = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.parent.glob("*.md"))]


def commands_of(page: Path) -> list[str]:
    """The commands of a page, from its code blocks and from inline code."""
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(
        r"^(collab .+)$", "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)), re.M
    )
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return lines + [" ".join(code.split()) for code in re.findall(r"`(collab [^`]+)`", prose)]


def test_commands_and_options_exist() -> None:
    group: Any = get_command(app)
    context = Context(group)
    for command in [command for page in PAGES for command in commands_of(page)]:
        _, name, *words = shlex.split(command, comments=True)
        if name.startswith("-"):
            continue
        assert name in COMMANDS, command
        _, found_command, _ = group.resolve_command(context, [name])
        known_options = {option for parameter in found_command.params for option in parameter.opts}
        used_options = {word for word in words if word.startswith("-")}
        assert used_options <= known_options | {"--help"}, command


def test_there_are_commands_to_check() -> None:
    assert sum(len(commands_of(page)) for page in PAGES) > 30
