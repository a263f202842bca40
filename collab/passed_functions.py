"""Functions passed in Python, and their names in a recipe's data.

A recipe is data, so a function in it is a name. A function in a user's file is `file.py:function`,
one in a package `module:function`. Both can be loaded again. One that a script or a notebook
defines has no such name: it is `python.DIGEST:function`, which only the process that passed it can
resolve. The digest covers everything visible of the function, so another function with that name is
not mistaken for it after a restart.
"""

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_PASSED_NAME = re.compile(r"python\.[0-9a-f]{8}:\w+")
_IN_FILE = re.compile(r"[^\n]+\.py:[^\W\d]\w*")
_IN_MODULE = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


def is_in_file(name: str) -> bool:
    """Return True for the name of a function in a file, `FILE.py:NAME`."""
    return _IN_FILE.fullmatch(name) is not None


def is_in_module(name: str) -> bool:
    """Return True for the name of a function in a module, `MODULE:NAME`."""
    return _IN_MODULE.fullmatch(name) is not None


def register_function(function: Callable[..., Any]) -> str:
    """Register a function in this process, and return its name for recipes.

    Different functions get different names, even if they look alike, e.g. because they close over
    objects with the same `repr`.
    """
    name, number = _importable_name(function), 0
    while not name:
        digested = f"python.{_digest(function, number)}:{plain_name(function)}"
        if _are_equal(_FUNCTIONS.get(digested, function), function):
            name = digested
        number += 1
    _FUNCTIONS[_absolute_name(name)] = function
    return name


def passed_function(name: str) -> Callable[..., Any] | None:
    """Return the function that this process registered as `name`, or None."""
    return _FUNCTIONS.get(_absolute_name(name))


def _absolute_name(name: str) -> str:
    """Return the name with the file's full path, with links resolved."""
    origin, _, function = name.rpartition(":")
    return f"{Path(origin).resolve()}:{function}" if origin.endswith(".py") else name


def is_passed_in_python(name: str) -> bool:
    """Return True if only the process that passed the function can resolve its name."""
    return _PASSED_NAME.fullmatch(name) is not None


def plain_name(function: Callable[..., Any]) -> str:
    """Return a function's name as one plain word, e.g. `lambda` for a lambda."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>") if name.strip("<>").isidentifier() else "function"


def _importable_name(function: Callable[..., Any]) -> str:
    """Return `file.py:function` or `module:function` if a user's file or a package has the function
    under a name. Return "" for other functions, and for those of the main module."""
    place = getattr(function, "__module__", None) or ""
    held = getattr(sys.modules.get(place), "__dict__", {})
    names = (plain_name(function), *held)
    name = next((name for name in names if held.get(name) is function), "")
    if not name or place == "__main__":
        return ""
    file = held.get("__file__") or ""
    if "." in place or not file.endswith(".py") or _is_installed(Path(file)):
        return f"{place}:{name}"
    path, here = Path(file).resolve(), Path.cwd().resolve()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}:{name}"


def _is_installed(file: Path) -> bool:
    roots = (sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib"))
    return any(file.resolve().is_relative_to(Path(root).resolve()) for root in roots)


def _digest(function: Callable[..., Any], number: int) -> str:
    digest = blake2b(digest_size=4)
    for part in [*_visible_parts(function), *([number] if number else [])]:
        for piece in _digest_pieces(part):
            digest.update(piece.encode(errors="replace") + b"\0")
    return digest.hexdigest()


def _digest_pieces(part: Any) -> list[str]:
    if inspect.isfunction(part):
        return [*_code_pieces(part.__code__), repr(part.__defaults__), repr(part.__kwdefaults__)]
    return [repr(part)]


def _are_equal(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return True for one function, or two of one digest and module whose values are equal.

    Values are defaults, attributes and what the function closes over. Arrays, which have no single
    truth value, count as different.
    """
    try:
        return one is other or _comparable_parts(one) == _comparable_parts(other)
    except Exception:
        return False


def _comparable_parts(function: Callable[..., Any]) -> list[Any]:
    return [
        (id(part.__globals__), vars(part), part.__defaults__, part.__kwdefaults__)
        if inspect.isfunction(part)
        else part
        for part in _visible_parts(function)
    ]


def _visible_parts(function: Any, enclosing: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield a function, the values that it closes over, and the arguments of a partial.

    `enclosing` are the functions that close over it. One that closes over itself is visited once.
    """
    if isinstance(function, partial):
        yield from _visible_parts(function.func, enclosing)
        yield from (function.args, function.keywords)
    elif not any(function is one for one in enclosing):
        yield function
        for cell in filter(_is_filled, getattr(function, "__closure__", None) or ()):
            yield from _visible_parts(cell.cell_contents, (*enclosing, function))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _code_pieces(code: CodeType) -> list[str]:
    """Return the code without its file and lines, which change with unrelated edits."""
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    inner = [piece for one in inside for piece in _code_pieces(one)]
    plain = [repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType)]
    return [code.co_code.hex(), *code.co_names, *code.co_varnames, *plain, *inner]
