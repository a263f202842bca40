"""Loads a user's files from the bytes that were read of them, and from no other file.

Python prefers a compiled file to its source, and imports what is in a folder at that moment. So
a file whose source was reviewed is imported by a separate finder. Each module is compiled from its
`SourceFile`, and no other module gets its name.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from collab.trust.blocking import (
    approved_digest,
    check_unchanged_since_approval,
    foreign_folders,
    is_own,
    run_folder_of,
)
from collab.trust.sources import SourceFile, digest_of, is_installed, sources_of_module


def load_file(name: str, sources: Sequence[SourceFile]) -> ModuleType:
    """Import a user's file, the first of `sources`, as the module `name`, and return the module.

    The other sources are the local modules that it imports; it gets its own copies. An import
    statement anywhere in these files finds them, now and later.

    Raises:
        Untrusted: a file has changed since it was approved.
    """
    main, *others = sources
    _check_approved(str(main.path), sources)
    local_names = {source.module.partition(".")[0] for source in others}
    loader = _Loader(main, name, local_names)
    _register(
        {name: loader} | {f"{name}.{s.module}": _Loader(s, name, local_names) for s in others}
    )
    _unload(name)
    module = sys.modules[name] = module_from_spec(loader.spec(name))
    try:
        loader.exec_module(module)
    except BaseException:
        _unload(name)
        raise
    return module


def restrict_to_source(name: str) -> None:
    """Let a module that is not installed be imported only from its source.

    The user's own package stays as it is once it was imported.

    Raises:
        RecipeError: the module has no source.
        Untrusted: the module has changed since it was approved.
    """
    package = name if approved_digest(name) else name.partition(".")[0]
    if package not in sys.modules and (sources := sources_of_module(name)):
        _check_approved(name, sources)
        _register({source.module: _Loader(source) for source in sources})


def _check_approved(name: str, sources: Sequence[SourceFile]) -> None:
    """Raise Untrusted for sources that are not approved; other files in their folder stay
    blocked."""
    check_unchanged_since_approval(name, digest_of(sources))
    if approved_digest(name) is not None and not is_own(sources[0].path):
        folder = run_folder_of(sources[0].path) or sources[0].root
        _FINDER.closed_folders = (*_FINDER.closed_folders, folder)


class _Loader(InspectLoader):
    """Compiles the bytes of a source; bytecode is never read or written."""

    def __init__(
        self,
        source: SourceFile | None,
        prefix: str = "",
        local_names: Sequence[str] | set[str] = (),
    ) -> None:
        """Make a loader. Without a source, the module is a package's folder without a file.

        Names in `local_names` are imported below `prefix`.
        """
        self._source, self._prefix, self._local_names = source, prefix, local_names

    def spec(self, name: str) -> ModuleSpec:
        """Return a module spec with an empty search path: only the finder knows the submodules."""
        search_path: list[str] | None = [] if self.is_package(name) else None
        if self._source is None:
            return ModuleSpec(name, self, is_package=True)
        spec = spec_from_file_location(
            name, self._source.path, loader=self, submodule_search_locations=search_path
        )
        assert spec is not None  # there is a loader
        spec.cached = None
        return spec

    def is_package(self, fullname: str) -> bool:
        source = self._source
        return source is None or source.is_package or fullname == self._prefix

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        return "" if self._source is None else decode_source(self._source.content)

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        content, path = (self._source.content, self._source.path) if self._source else (b"", "")
        code: CodeType = compile(content, str(path), "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        if self._local_names:
            vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        super().exec_module(module)

    def _import(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        """Act as `__import__`, with separate names for local modules."""
        if level or name.partition(".")[0] not in self._local_names:
            return builtins.__import__(name, globals, locals, fromlist, level)
        module = builtins.__import__(
            f"{self._prefix}.{name}", globals, locals, fromlist or ("__name__",)
        )
        return module if fromlist else sys.modules[f"{self._prefix}.{name.partition('.')[0]}"]


class _Finder(MetaPathFinder):
    """Finds the modules that collab has read, and refuses other files in their folders."""

    def __init__(self) -> None:
        self.loaders: dict[str, _Loader] = {}
        self.closed_folders: tuple[Path, ...] = ()
        """Folders of foreign functions, from which nothing else is imported. If there are any,
        nothing is imported from `foreign_folders` either."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname in self.loaders:
            return self.loaders[fullname].spec(fullname)
        if fullname.partition(".")[0] in self.loaders:
            raise ModuleNotFoundError(
                f"there is no module '{fullname}' among the sources that collab has read; collab"
                " imports compiled modules from installed packages only",
                name=fullname,
            )
        if not self.closed_folders:
            return None
        spec = _find_spec_elsewhere(fullname, path, target)
        for place in _paths_of(spec):
            if self._is_closed(place):
                raise ModuleNotFoundError(
                    f"the module '{fullname}' of {place} is third-party code and is not approved;"
                    " import it in the function's file with an import statement",
                    name=fullname,
                )
        return spec

    def _is_closed(self, entry: Any) -> bool:
        """Return True if a search path entry, or a link that leads to it, is in a closed folder.

        "" means the current folder.
        """
        if not self.closed_folders or not isinstance(entry, str) or is_installed(_real_path(entry)):
            return False
        path = Path(os.path.abspath(entry))  # noqa: PTH100  # links are followed one by one
        steps = [_real_path(step.parent) / step.name for step in (path, *path.parents)]
        folders = (*self.closed_folders, *foreign_folders)
        return any(step.is_relative_to(folder) for step in steps for folder in folders)


def _real_path(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _find_spec_elsewhere(fullname: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in [finder for finder in sys.meta_path if finder is not _FINDER]:
        if (spec := finder.find_spec(fullname, path, target)) is not None:
            return spec
    return None


def _paths_of(spec: ModuleSpec | None) -> list[str]:
    """Return the file and the folders of a module."""
    if spec is None:
        return []
    file = [spec.origin] if spec.has_location and spec.origin else []
    return [*file, *(spec.submodule_search_locations or ())]


_FINDER = _Finder()


def _unload(name: str) -> None:
    """Remove a module and its submodules from the imported modules."""
    for imported in [*sys.modules]:
        if imported.partition(".")[0] == name:
            del sys.modules[imported]


def _register(loaders: dict[str, _Loader]) -> None:
    """Register the modules with the finder, and the folders between them and their package."""
    for name in [*loaders]:
        while (name := name.rpartition(".")[0]) and name not in loaders:
            loaders[name] = _Loader(None)
    _FINDER.loaders |= loaders
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
