"""A helper that gives other values than its own, to learn what depends on them.

The helper stays the function that it is, with its name, signature, globals and frames: only what it
returns or yields passes through one more call. A control passes through the same call and comes out
as a copy, and takes as long. So nothing that a program sees tells a treatment from its control but
the value itself, not even which object it is. Where a program looks into the interpreter (frames,
code objects, tracing, the garbage collector), the treatment ends and no answer counts from then on.
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
from types import CodeType
from typing import Any, Protocol

from .values import copied, emptied, filled, other, shape, shorter

_LOOKS = (
    "sys._current_", "sys.settrace", "sys.setprofile", "sys.monitoring", "sys.addaudithook",
    "gc.get_", "ctypes.",
)  # fmt: skip
"""What a program asks of the interpreter, by the beginnings of the names of audit events."""
_READS = frozenset({"f_code", "tb_frame", "gi_frame", "gi_code", "cr_frame", "cr_code"})
_HARMLESS = {collections.namedtuple.__code__, typing._caller.__code__}  # type: ignore[attr-defined]
"""What looks at a frame for the name of a module alone."""
MOST_REPEATS = 50
"""So often is the first value changed in one answer: a loop that waits for another one must end."""
MOST_VALUES = 50_000
"""The values of one answer that are changed, for the same reason."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPE = (_Function, ast.ClassDef, ast.Lambda)


class Treated(Protocol):
    """A treatment at work."""

    spoilt: bool

    def begin(self) -> None: ...


class NoHelper(Exception):
    """The program defines no function of the helper's name."""


def treated(
    program: str,
    file: str,
    *,
    function: str,
    values: str,
    seed: int,
    lines: Sequence[int] | None = None,
    moved: bool = False,
) -> tuple[CodeType, Treated]:
    """The code of `program` with the values of `function` changed, and its treatment.

    `lines` are the first and the last, from 1, where the function is defined, if not anywhere.
    `moved` gives the program's objects other addresses than in another run.

    Raises NoHelper, and what `compile` raises.
    """
    change = _Values(values, seed, moved)
    mark = os.urandom(16)
    tree = ast.parse(program, file)
    first, last = lines or (1, program.count("\n") + 1)
    helpers = [h for h in _helpers(tree.body, function) if first <= h.lineno <= last]
    if not helpers:
        raise NoHelper(f"no function `{function}` is defined")
    for helper in helpers:
        _pass_through(helper, mark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    sys.addaudithook(_watch(function, change.end))
    return _with_constant(code, mark, change), change


def _ballast() -> list[object]:
    """Objects of every small size and kind, in numbers that nobody knows."""
    counts = iter(os.urandom(1024))
    kept: list[object] = [bytes(size) for size in range(0, 480, 8) for _ in range(next(counts))]
    for kind in (list, dict, set, object):
        kept += [kind() for _ in range(100 + next(counts))]
    kept += [n / 7 for n in range(100 + next(counts))]
    for length in range(1, 21):  # Python keeps tuples of these lengths for the next ones
        kept += [tuple([None] * length) for _ in range(100 + next(counts))]
    kept += [[item] for item in kept[:: 1 + next(counts) % 7]]
    return kept


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


class _Values:
    """What every value of the helper passes through.

    A change is a function of the value: equal values of one type are changed alike in the whole
    run, and one object stays one. So what a program works out of the values alone, such as
    `aux(x) - aux(x)`, comes to the same. Only `shifted` gives each yes or no in the place of the
    next one; what is lost by it counts only beside a change of the other kind. Once changed and
    true values could stand beside each other, because the treatment ended amid a run, no answer
    counts any more.
    """

    def __init__(self, values: str, seed: int, moved: bool = False) -> None:
        self._ballast = _ballast() if moved else []
        self._moves = moved
        self._rule: Rule | None = _rule(values, seed)
        self._control, self._only_first = values == "true", values == "once"
        self._shifts = values == "shifted"
        self._first: list[bytes | None] = []
        self._given: dict[int, tuple[Any, bytes | None, Any]] = {}
        self.spoilt = False
        """The treatment has ended, and what the program answers shows nothing."""
        self._repeats_left, self._values_left = MOST_REPEATS, MOST_VALUES
        self._last: bool | None = None

    def begin(self) -> None:
        """An answer begins; what was freed since the program was loaded is taken once more."""
        if self._moves:
            self._ballast += _ballast()
            self._moves = False
        self._repeats_left, self._values_left = MOST_REPEATS, MOST_VALUES
        self._last = None

    def end(self) -> None:
        self._rule, self.spoilt = None, True
        self._given.clear()

    def __call__(self, value: Any, each: bool = False) -> Any:
        if _tracemalloc.is_tracing():
            self.end()
        if each:
            return map(self, value)
        text = shape(value)
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
        before = self._given.get(id(value))
        if before is not None and before[1] == text:
            return before[2]
        try:
            changed = self._rule(value, text, is_first)
        except (ArithmeticError, RecursionError, MemoryError, IndexError):
            changed = value
        self._given[id(value)] = value, text, changed  # the object lives on, so its id is its own
        return changed


Rule = Callable[[Any, bytes | None, bool], Any]
"""From a value, its text, and whether it equals the first of a run, to the value passed on."""


def _rule(values: str, seed: int) -> Rule:
    useless = object()
    earlier: list[Any] = []
    earlier_of: dict[bytes, Any] = {}

    def true(value: Any, _: bytes | None, __: bool) -> Any:
        other(value, seed)
        return copied(value)

    def once(value: Any, _: bytes | None, is_first: bool) -> Any:
        changed = other(value, seed)
        return changed if is_first else value

    def first(value: Any, text: bytes | None, _: bool) -> Any:
        if text is None:
            return value
        if not earlier:
            earlier.append(copied(value))
        return copied(earlier[0])

    def previous(value: Any, text: bytes | None, _: bool) -> Any:
        if text is None:
            return value
        if text not in earlier_of:
            earlier.append(copied(value))
            earlier_of[text] = earlier[max(0, len(earlier) - 2)]
        return copied(earlier_of[text])

    rules: dict[str, Rule] = {
        "true": true,
        "none": lambda *_: None,
        "opaque": lambda *_: useless,
        "once": once,
        "other": lambda value, *_: other(value, seed),
        "longer": lambda value, *_: other(value, seed, longer=True),
        "shorter": lambda value, *_: shorter(value, seed),
        "zeros": lambda value, *_: filled(value, 0),
        "ones": lambda value, *_: filled(value, 1),
        "empty": lambda value, *_: emptied(value),
        "first": first,
        "previous": previous,
        "shifted": lambda value, *_: value,
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
