"""The installed distribution of collab: its name, its version, and its requirements."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any

NAME = "collab-agents"
"""Name of the distribution. The import and the command are called `collab`."""


def version() -> str:
    """Return the version of the installed distribution, or of a clone that is not installed."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return str(_project().get("version", "0+unknown"))


def requirements() -> list[str]:
    """Return the requirements of the distribution, including those of its extras."""
    try:
        return importlib.metadata.requires(NAME) or []
    except importlib.metadata.PackageNotFoundError:
        project = _project()
        extras = project.get("optional-dependencies", {}).values()
        return [*project.get("dependencies", ()), *(line for extra in extras for line in extra)]


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{NAME}[{extra}]'"


def _project() -> dict[str, Any]:
    """Return the `project` table of a clone's own `pyproject.toml`."""
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    try:
        project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return {}
    return project if project.get("name") == NAME else {}
