"""Imports between the files of a program, from memory, because a jail has no files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType


class Modules(MetaPathFinder, Loader):
    """Finds and loads the modules of a program by their names.

    `codes` are the compiled files by module. A folder above one is a package, with or without an
    `__init__.py`.
    """

    def __init__(self, codes: Mapping[str, CodeType]) -> None:
        self._files = {name: code.co_filename for name, code in codes.items()}
        self._runs = {name: _run_code(code) for name, code in codes.items()}
        for run in self._runs.values():
            next(run)
        parts = [name.split(".") for name in codes]
        packages = {".".join(p[:n]) for p in parts for n in range(1, len(p))}
        inits = {name for name, file in self._files.items() if file.endswith("__init__.py")}
        self._packages = packages | inits

    def install(self) -> None:
        """Make `import` load the modules again, even if others were loaded under these names."""
        for name in (*self._files, *self._packages):
            sys.modules.pop(name, None)
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name not in self._files and name not in self._packages:
            return None
        spec = importlib.util.spec_from_loader(name, self, is_package=name in self._packages)
        if spec is not None and name in self._files:
            spec.origin, spec.has_location = self._files[name], True
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        del spec

    def exec_module(self, module: ModuleType) -> None:
        run = self._runs.get(module.__name__)
        if run is not None and (error := run.send(module)) is not None:
            raise error


def _run_code(code: CodeType) -> Generator[BaseException | None, ModuleType, None]:
    """Run code in each module that is sent, and yield its error.

    The code holds the treatment, if there is one. A program sees into a generator only by a frame,
    which ends the treatment. `execute` is a variable, because a program may replace a builtin.
    """
    execute = exec
    error: BaseException | None = None
    while True:
        module = yield error
        error = None
        try:
            execute(code, module.__dict__)
        except BaseException as raised:
            error = raised
        del module
