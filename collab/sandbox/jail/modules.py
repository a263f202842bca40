"""Imports between the files of a program, from memory, because a jail has no files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType


class Modules(MetaPathFinder, Loader):
    """Finds and loads the modules of a program by their names.

    `codes` are the compiled files by module. A folder above one is a package, with or without an
    `__init__.py`.
    """

    def __init__(self, codes: Mapping[str, CodeType]) -> None:
        self._codes = codes
        parts = [name.split(".") for name in codes]
        packages = {".".join(p[:n]) for p in parts for n in range(1, len(p))}
        inits = {name for name, code in codes.items() if code.co_filename.endswith("__init__.py")}
        self._packages = packages | inits

    def install(self) -> None:
        """Make `import` load the modules again, even if others were loaded under these names."""
        for name in (*self._codes, *self._packages):
            sys.modules.pop(name, None)
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name not in self._codes and name not in self._packages:
            return None
        spec = importlib.util.spec_from_loader(name, self, is_package=name in self._packages)
        if spec is not None and name in self._codes:
            spec.origin, spec.has_location = self._codes[name].co_filename, True
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        del spec

    def exec_module(self, module: ModuleType) -> None:
        code = self._codes.get(module.__name__)
        if code is not None:
            exec(code, module.__dict__)
