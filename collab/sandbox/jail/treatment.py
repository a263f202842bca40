"""Replaces the values of a helper function, to learn what depends on them.

The helper stays the same function, with the same name, signature, globals and frames. Only its
returned or yielded values pass through one more call. In a control, they pass through the same
call, which returns a copy and takes as long. A program can therefore distinguish a treatment from
its control only by the value itself, not even by the identity of the object. If a program inspects
the interpreter (frames, code objects, tracing, the garbage collector), the treatment ends and no
later answer counts.
"""

from __future__ import annotations

import _tracemalloc
import ast
import collections
import os
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from .values import change_value, copy_value, empty_value, fill_value, shorten_value, value_key

_INSPECTION_EVENTS = (
    "sys._current_", "sys.settrace", "sys.setprofile", "sys.monitoring", "sys.addaudithook",
    "gc.get_", "ctypes.",
)  # fmt: skip
"""Operations that a program can use to inspect the interpreter, as prefixes of audit events."""
_INSPECTION_ATTRIBUTES = frozenset(
    {"f_code", "tb_frame"}
    | {f"{kind}_{part}" for kind in ("gi", "cr", "ag") for part in ("frame", "code")}
)
_HARMLESS_CODE = {collections.namedtuple.__code__, typing._caller.__code__}  # type: ignore[attr-defined]
"""Code that reads a frame only for the name of a module."""
MAX_REPEATS = 50
"""Maximum number of changes of the first value in one answer, because a loop may wait for another
value.
"""
MAX_VALUES = 50_000
"""Maximum number of values changed in one answer, because a loop may wait for another value."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPE_NODES = (_Function, ast.ClassDef, ast.Lambda)


class Undefined(Exception):
    """The program does not define the function or class that a trial is about."""


def compile_treated(
    program: str,
    file: str,
    *,
    function: str,
    values: str,
    seed: int,
    lines: Sequence[int] | None = None,
    moved: bool = False,
) -> tuple[CodeType, ActiveTreatment]:
    """Change the values of `function` in `program`. Return the code and the treatment in progress.

    With `lines`, the first and the last line counted from 1, only definitions that begin there are
    changed. With `moved`, the program's objects have other addresses than in another run.

    Raises:
        Undefined: `program` does not define the function.
        Exception: the error of `compile`.
    """
    active = ActiveTreatment(values, seed, moved)
    mark = os.urandom(16)
    tree = ast.parse(program, file)
    first, last = lines or (1, program.count("\n") + 1)
    helpers = [h for h in _find_helpers(tree.body, function) if first <= h.lineno <= last]
    if not helpers:
        raise Undefined(f"no function `{function}` is defined")
    for helper in helpers:
        _pass_through(helper, mark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    sys.addaudithook(_audit_hook(active))
    return _replace_constant(code, mark, active), active


def _allocate_ballast() -> list[object]:
    """Allocate objects of every small size and kind, in unpredictable numbers."""
    counts = iter(os.urandom(1024))
    kept: list[object] = [bytes(size) for size in range(0, 480, 8) for _ in range(next(counts))]
    for kind in (list, dict, set, object):
        kept += [kind() for _ in range(100 + next(counts))]
    kept += [n / 7 for n in range(100 + next(counts))]
    for length in range(1, 21):  # Python reuses the memory of tuples of these lengths
        kept += [tuple([None] * length) for _ in range(100 + next(counts))]
    kept += [[item] for item in kept[:: 1 + next(counts) % 7]]
    return kept


def _find_helpers(body: list[ast.stmt], name: str) -> Iterator[_Function | ast.Lambda]:
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, _Function) and node.name == name:
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                yield node.value
        elif not isinstance(node, _SCOPE_NODES):
            pending.extend(ast.iter_child_nodes(node))


def _pass_through(helper: _Function | ast.Lambda, mark: bytes) -> None:
    """Pass the values that `helper` returns and yields through a call of the constant `mark`."""
    if isinstance(helper, ast.Lambda):
        helper.body = _marked_call(mark, helper.body)
        return
    pending: list[ast.AST] = list(helper.body)
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPE_NODES):
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            node.value = _marked_call(mark, node.value)
        elif isinstance(node, ast.YieldFrom):
            node.value = _marked_call(mark, node.value, ast.Constant(True))


def _marked_call(mark: bytes, *values: ast.expr) -> ast.expr:
    call = ast.Call(ast.Constant(mark), list(values), [])
    for node in (call, call.func, *values[1:]):
        ast.copy_location(node, values[0])
    return call


def _replace_constant(code: CodeType, mark: bytes, value: object) -> CodeType:
    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _replace_constant(constant, mark, value)
        return value if isinstance(constant, bytes) and constant == mark else constant

    return code.replace(co_consts=tuple(map(replaced, code.co_consts)))


class ActiveTreatment:
    """A treatment in progress: transforms every value of the helper.

    The change depends only on the value: in a run, equal values of one type change in the same way,
    and identical objects stay identical. Terms that cancel, such as `aux(x) - aux(x)`, therefore
    still cancel. Only `shifted` replaces each boolean by the one before. Its losses count only
    together with a change of the other kind. If changed and true values could coexist, because the
    treatment ended in the middle of a run, no later answer counts.
    """

    def __init__(self, values: str, seed: int, moved: bool = False) -> None:
        self._ballast = _allocate_ballast() if moved else []
        self._moves = moved
        self._rule: Rule | None = _make_rule(values, seed)
        self._control, self._only_first = values == "true", values == "once"
        self._shifts = values == "shifted"
        self._first: list[bytes | None] = []
        self._changed_values: dict[int, tuple[Any, bytes | None, Any]] = {}
        self.is_spoilt = False
        """True if the treatment has ended, so the program's answers no longer count."""
        self._repeats_left, self._values_left = MAX_REPEATS, MAX_VALUES
        self._last: bool | None = None

    def begin(self) -> None:
        """Begin an answer, and allocate again the memory freed since the program was loaded."""
        if self._moves:
            self._ballast += _allocate_ballast()
            self._moves = False
        self._repeats_left, self._values_left = MAX_REPEATS, MAX_VALUES
        self._last = None

    def end(self) -> None:
        self._rule, self.is_spoilt = None, True
        self._changed_values.clear()

    def __call__(self, value: Any, each: bool = False) -> Any:
        if _tracemalloc.is_tracing():
            self.end()
        if each:
            return map(self, value)
        text = value_key(value)
        if not self._first:
            self._first.append(text)
        is_first = text == self._first[0]
        self._values_left -= 1
        self._repeats_left -= is_first
        over = self._values_left < 0 or (self._only_first and self._repeats_left < 0)
        if over and not self._control:
            self.end()
        if over or self._rule is None:
            return value
        if self._shifts and type(value) is bool:
            self._last, earlier = value, self._last
            return value if earlier is None else earlier
        before = self._changed_values.get(id(value))
        if before is not None and before[1] == text:
            return before[2]
        try:
            changed = self._rule(value, text, is_first)
        except (ArithmeticError, RecursionError, MemoryError, IndexError):
            changed = value
        self._changed_values[id(value)] = value, text, changed  # alive, so its id stays unique
        return changed


Rule = Callable[[Any, bytes | None, bool], Any]
"""Maps a value, its text, and whether it equals the first of a run, to the value passed on."""


def _make_rule(values: str, seed: int) -> Rule:
    useless = object()
    earlier: list[Any] = []
    earlier_of: dict[bytes, Any] = {}

    def true(value: Any, _: bytes | None, __: bool) -> Any:
        change_value(value, seed)
        return copy_value(value)

    def once(value: Any, _: bytes | None, is_first: bool) -> Any:
        changed = change_value(value, seed)
        return changed if is_first else value

    def first(value: Any, text: bytes | None, _: bool) -> Any:
        if text is None:
            return value
        if not earlier:
            earlier.append(copy_value(value))
        return copy_value(earlier[0])

    def previous(value: Any, text: bytes | None, _: bool) -> Any:
        if text is None:
            return value
        if text not in earlier_of:
            earlier.append(copy_value(value))
            earlier_of[text] = earlier[max(0, len(earlier) - 2)]
        return copy_value(earlier_of[text])

    rules: dict[str, Rule] = {
        "true": true,
        "none": lambda *_: None,
        "opaque": lambda *_: useless,
        "once": once,
        "other": lambda value, *_: change_value(value, seed),
        "longer": lambda value, *_: change_value(value, seed, longer=True),
        "shorter": lambda value, *_: shorten_value(value, seed),
        "zeros": lambda value, *_: fill_value(value, 0),
        "ones": lambda value, *_: fill_value(value, 1),
        "empty": lambda value, *_: empty_value(value),
        "first": first,
        "previous": previous,
        "shifted": lambda value, *_: value,
    }
    return rules[values]


def _audit_hook(treatment: ActiveTreatment) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that ends the treatment when the program inspects the interpreter."""
    busy: list[bool] = []
    end = treatment.end

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if busy:
            return
        busy.append(True)
        try:
            if _is_inspection(event, arguments, treatment):
                end()
        finally:
            busy.clear()

    return watch


def _is_inspection(event: str, arguments: tuple[Any, ...], treatment: ActiveTreatment) -> bool:
    """Return True for an inspection. This runs no method of the program's objects."""
    if event == "object.__getattr__":
        owner, name = arguments[:2]
        if type(name) is not str:
            return True
        if name == "__code__" and type(owner) is FunctionType:
            return any(constant is treatment for constant in owner.__code__.co_consts)
        return name in _INSPECTION_ATTRIBUTES
    if event == "sys._getframe":
        code = sys._getframe(2).f_code
        return all(code is not harmless for harmless in _HARMLESS_CODE)
    return event.startswith(_INSPECTION_EVENTS)
