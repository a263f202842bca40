"""What `collab doctor` finds, and the versions that it compares."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from collab.distribution import requirements


@dataclass(frozen=True)
class Finding:
    group: str
    name: str
    fine: bool
    detail: str
    remedy: str = ""
    """What to do where it is not fine."""
    needed: bool = False
    """Whether the main job cannot do without."""


def tested_ranges() -> dict[str, str]:
    """By package: the versions that this release was tested with, from its own metadata."""
    try:
        from packaging.requirements import Requirement

        wanted = [Requirement(line) for line in requirements()]
    except ImportError:
        return {}
    return {requirement.name: str(requirement.specifier) for requirement in wanted}


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_within(found: str, tested: str) -> bool:
    """Whether a version lies in a range; every one does where none is known."""
    if not tested:
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(tested).contains(found, prereleases=True)
