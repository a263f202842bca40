"""What collab is called where packages are installed from, its version, and what it requires."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any

NAME = "collab-agents"
"""The distribution. What is imported, and the command, is `collab`."""


def version() -> str:
    """Of the installed distribution; in a clone that is not installed, what it would be."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return str(_project().get("version", "0+unknown"))


def requirements() -> list[str]:
    """The requirements of the distribution, those of its extras included."""
    try:
        return importlib.metadata.requires(NAME) or []
    except importlib.metadata.PackageNotFoundError:
        project = _project()
        extras = project.get("optional-dependencies", {}).values()
        return [*project.get("dependencies", ()), *(line for extra in extras for line in extra)]


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{NAME}[{extra}]'"


def _project() -> dict[str, Any]:
    """What a clone's own `pyproject.toml` says."""
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    try:
        project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return {}
    return project if project.get("name") == NAME else {}
