"""The installed distribution of collab: its name, version, requirements, and Python."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from pathlib import Path
from typing import Any

DISTRIBUTION = "collab-agents"
"""Name of the distribution. The import and the command are called `collab`."""


def version() -> str:
    """Return the version of the installed distribution, or of a clone that is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return str(_read_pyproject().get("version", "0+unknown"))


def requirements() -> list[str]:
    """Return the distribution's requirements, in pip's format, including those of its extras."""
    try:
        return importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        project = _read_pyproject()
        extras = project.get("optional-dependencies", {}).values()
        return [*project.get("dependencies", ()), *(line for extra in extras for line in extra)]


def version_ranges() -> dict[str, str]:
    """Return the version range that this release requires of each package, or {} if the package
    `packaging` is missing.
    """
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return {}
    wanted = map(Requirement, requirements())
    return {requirement.name: str(requirement.specifier) for requirement in wanted}


def install(extra: str) -> str:
    """Return the shell command that installs the extra `extra`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def own_python() -> list[str]:
    """Return the command that starts Python with the import path of this process.

    Without `-P`, a Python that runs a module imports from the current folder first.
    """
    is_here = sys.path[0] in ("", os.getcwd())  # noqa: PTH109
    return [sys.executable] if is_here else [sys.executable, "-P"]


def optional(module: str, user: str, extra: str, error: type[Exception]) -> Any:
    """Import a module of an optional package, which `user` needs.

    Raises:
        Exception: an `error`, if the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        package = module.partition(".")[0]
        raise error(
            f"{user} needs the package {package}, which is missing or too old; install it with"
            f" {install(extra)}"
        ) from reason


def _read_pyproject() -> dict[str, Any]:
    """Return the `project` table of a clone's `pyproject.toml`, or {} outside a clone."""
    import tomllib

    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    try:
        project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return {}
    return project if project.get("name") == DISTRIBUTION else {}
