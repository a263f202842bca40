"""Names and components that a package imports on first use, so that importing it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any


def import_name(name: str, package: str, file: str) -> Any:
    """Import a name of a package from the module that its block `if TYPE_CHECKING` names.

    Raises:
        AttributeError: the block in the package's `file` does not import it.
    """
    from importlib import import_module

    place = _source_modules(file).get(name)
    if place is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    if place == package:
        return import_module(f"{package}.{name}")
    return getattr(import_module(place), name)


@cache
def _source_modules(file: str) -> dict[str, str]:
    """Return the module of each name that the blocks of a file import."""
    import ast
    from pathlib import Path

    blocks = [n for n in ast.parse(Path(file).read_bytes()).body if isinstance(n, ast.If)]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


class BuiltIn(Mapping[str, Any]):
    """The components that come with collab, by name. Each is imported when it is first read."""

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        """Take the `module:attribute` of each component, with the module in `package`."""
        self._package, self._places = package, places

    def __getitem__(self, name: str) -> Any:
        from importlib import import_module

        module, _, attribute = self._places[name].partition(":")
        return getattr(import_module(f"{self._package}.{module}"), attribute)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
