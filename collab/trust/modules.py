"""Loading a user's file with the local modules that it imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from collab.trust.sources import Source


@contextmanager
def local_modules(sources: Sequence[Source]) -> Iterator[None]:
    """While entered, the local modules that a user's file imports are found.

    They are forgotten after it: another file's module of the same name is another one.
    """
    if not sources:
        yield
        return
    roots = {source.module: str(source.root) for source in sources}
    others = _taken_out(roots)
    finder = _Finder(roots)
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _taken_out(roots)
        sys.modules.update(others)


class _Finder(MetaPathFinder):
    """Finds modules by name in the folder of each, before any other place is looked at."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = roots

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002
        root = self._roots.get(fullname)
        return None if root is None else PathFinder.find_spec(fullname, [root])


def _taken_out(names: Container[str]) -> dict[str, ModuleType]:
    """The imported modules of these top-level names, taken out of `sys.modules`.

    Another thread may import something meanwhile, hence the copy.
    """
    found = [name for name in list(sys.modules) if name.partition(".")[0] in names]
    return {name: sys.modules.pop(name) for name in found}
