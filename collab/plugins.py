"""Functions that a user names: `module:function`, `file.py:function`, or an entry point."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from collab.errors import RecipeError, UnknownName


def find(kind: str, name: str, built_in: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The function called `name`: built in, registered under `collab.<kind>s`, or by reference.

    Raises:
        RecipeError: no such function; with the nearest known name where there is one.
    """
    if name in built_in:
        return built_in[name]
    if ":" in name:
        return load(kind, name)
    registered = {point.name: point for point in entry_points(group=f"collab.{kind}s")}
    if name in registered:
        function: Callable[..., Any] = registered[name].load()
        return function
    raise UnknownName(kind, name, {*built_in, *registered})


def load(kind: str, reference: str) -> Callable[..., Any]:
    """The function at `module:function` or `file.py:function` (relative to the current folder)."""
    origin, _, attribute = reference.rpartition(":")
    module = _from_file(kind, origin) if origin.endswith(".py") else _from_module(kind, origin)
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if callable(value)]
        raise UnknownName(f"{kind} function in {origin}", attribute, known)
    return function  # type: ignore[no-any-return]


def _from_module(kind: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RecipeError(f"{kind} '{name}' cannot be imported: {error}") from error


def _from_file(kind: str, name: str) -> ModuleType:
    path = Path(name).resolve()
    if not path.is_file():
        raise RecipeError(f"{kind} file '{name}' does not exist (looked for {path})")
    module_name = f"collab_plugin_{path.stem}_{abs(hash(str(path)))}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"{kind} file '{name}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise RecipeError(
            f"{kind} file '{name}' fails to load: {type(error).__name__}: {error}"
        ) from error
    return module
