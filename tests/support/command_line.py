"""Runs `collab` commands within this process."""

import json
from typing import Any

from typer.testing import CliRunner

from collab.cli.app import app


class Result:
    """The outcome of a command: its exit status and its output."""

    def __init__(self, *arguments: str) -> None:
        result = CliRunner().invoke(app, list(arguments))
        self.status = result.exit_code
        self.out = result.stdout
        self.err = result.stderr

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Collab:
    """Runs `collab` within this process."""

    def __call__(self, *arguments: str) -> Result:
        return Result(*arguments)
