"""A helper that gives other values than its own, to learn what depends on them.

The helper stays the function that it is, with its name, signature, globals and frames: only what it
returns or yields passes through one more call. A control passes through the same call and comes out
as it was, and takes as long. So nothing that a program sees tells a treatment from its control but
the value itself; and where a program looks into the interpreter (frames, code objects, tracing, the
garbage collector), the treatment ends and every value is true from then on.
"""

from __future__ import annotations

import _tracemalloc
import ast
import collections
import marshal
import os
import sys
import typing
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from .values import other

_LOOKS = (
    "sys._current_", "sys.settrace", "sys.setprofile", "sys.monitoring", "sys.addaudithook",
    "gc.get_", "ctypes.",
)  # fmt: skip
"""What a program asks of the interpreter, by the beginnings of the names of audit events."""
_READS = frozenset({"f_code", "tb_frame", "gi_frame", "gi_code", "cr_frame", "cr_code"})
_HARMLESS = {collections.namedtuple.__code__, typing._caller.__code__}  # type: ignore[attr-defined]
"""What looks at a frame for the name of a module alone."""
MOST_REPEATS = 50
"""So often is the first value of an answer changed when it comes again: the same value is always
changed alike, but a loop that waits for another one must end."""
MOST_VALUES = 10_000
"""The values of one answer that are changed; those behind are true, for the same reason."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPE = (_Function, ast.ClassDef, ast.Lambda)


class NoHelper(Exception):
    """The program defines no function of the helper's name."""


def treated(
    program: str, file: str, *, function: str, values: str, seed: int
) -> tuple[CodeType, Callable[[], None]]:
    """The code of `program` with the values of `function` changed, and what to call before each
    question to it.

    Raises NoHelper, and what `compile` raises.
    """
    change, begin, end = _change(values, seed)
    mark = os.urandom(16)
    tree = ast.parse(program, file)
    helpers = [*_helpers(tree.body, function)]
    if not helpers:
        raise NoHelper(f"no function `{function}` is defined")
    for helper in helpers:
        _pass_through(helper, mark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    sys.addaudithook(_watch(function, end))
    return _with_constant(code, mark, change), begin


def _helpers(body: list[ast.stmt], name: str) -> Iterator[_Function | ast.Lambda]:
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, _Function) and node.name == name:
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                yield node.value
        elif not isinstance(node, _SCOPE):
            pending.extend(ast.iter_child_nodes(node))


def _pass_through(helper: _Function | ast.Lambda, mark: bytes) -> None:
    """Have what `helper` returns and yields go through a call of the constant `mark`."""
    if isinstance(helper, ast.Lambda):
        helper.body = _call(mark, helper.body)
        return
    pending: list[ast.AST] = list(helper.body)
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPE):
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            node.value = _call(mark, node.value)
        elif isinstance(node, ast.YieldFrom):
            node.value = _call(mark, node.value, ast.Constant(True))


def _call(mark: bytes, *values: ast.expr) -> ast.expr:
    call = ast.Call(ast.Constant(mark), list(values), [])
    for node in (call, call.func, *values[1:]):
        ast.copy_location(node, values[0])
    return call


def _with_constant(code: CodeType, mark: bytes, value: object) -> CodeType:
    """`code` with `value` in the place of the constant `mark`, wherever it stands."""

    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_constant(constant, mark, value)
        return value if isinstance(constant, bytes) and constant == mark else constant

    return code.replace(co_consts=tuple(map(replaced, code.co_consts)))


def _change(
    values: str, seed: int
) -> tuple[Callable[..., Any], Callable[[], None], Callable[[], None]]:
    """What every value passes through, what begins an answer, and what ends the treatment."""
    rules = [_rule(values, seed)]
    first: list[bytes | None] = []
    left, changes = [0], [0]

    def passed_on(value: Any, each: bool = False) -> Any:
        if _tracemalloc.is_tracing():
            end()
        changes[0] += 1
        if not rules or changes[0] > MOST_VALUES:
            return value
        if each:
            return map(passed_on, value)
        text = _text(value)
        if not first:
            first.append(text)
        left[0] -= text == first[0]
        try:
            return rules[0](value, text == first[0] and left[0] >= 0)
        except (RecursionError, MemoryError, IndexError):
            return value

    def begin() -> None:
        first.clear()
        left[0], changes[0] = MOST_REPEATS, 0

    def end() -> None:
        rules.clear()

    begin()
    return passed_on, begin, end


def _text(value: Any) -> bytes | None:
    """The same for equal values of Python's own types; None for others."""
    try:
        return marshal.dumps(value, 0)
    except (ValueError, MemoryError):
        return None


Rule = Callable[[Any, bool], Any]
"""From a value, and whether it equals the first of an answer, to the value that is passed on."""


def _rule(values: str, seed: int) -> Rule:
    earlier: list[Any] = []

    def true(value: Any, _: bool) -> Any:
        other(value, seed)
        return value

    def once(value: Any, is_first: bool) -> Any:
        changed = other(value, seed)
        return changed if is_first else value

    def first(value: Any, _: bool) -> Any:
        earlier.append(value)
        del earlier[1:]
        return earlier[0]

    def previous(value: Any, _: bool) -> Any:
        earlier.append(value)
        return earlier.pop(0) if len(earlier) > 1 else value

    rules: dict[str, Rule] = {
        "true": true,
        "none": lambda _, __: None,
        "opaque": lambda _, __: object(),
        "once": once,
        "other": lambda value, _: other(value, seed),
        "longer": lambda value, _: other(value, seed, longer=True),
        "first": first,
        "previous": previous,
    }
    return rules[values]


def _watch(function: str, end: Callable[[], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that calls `end` when the program looks into the interpreter."""
    busy: list[bool] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if busy:
            return
        busy.append(True)
        try:
            if _looks(event, arguments, function):
                end()
        finally:
            busy.clear()

    return watch


def _looks(event: str, arguments: tuple[Any, ...], function: str) -> bool:
    if event == "object.__getattr__":
        owner, name = arguments[:2]
        own = name == "__code__" and getattr(owner, "__name__", "") == function
        return own or name in _READS
    if event == "sys._getframe":
        return sys._getframe(2).f_code not in _HARMLESS
    return event.startswith(_LOOKS)
