"""Sandboxed templates with bounded rendering cost, since their authors may be anyone."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Sized,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, update_wrapper
from inspect import Signature, signature, unwrap
from math import prod
from types import BuiltinMethodType, MappingProxyType, MethodType
from typing import Any, NoReturn

from jinja2 import TemplateSyntaxError, nodes, pass_context
from jinja2.lexer import TokenStream
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from jinja2.utils import Namespace, _PassArg
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

MOST = 20_000_000
"""Characters that one rendering may handle."""
STEP = 50
"""Characters that one step counts as."""
OF_SOURCE, OF_TOKEN, OF_NESTED, OF_NAME = 5, 500, 10, 5
"""Costs of compiling: of a character, of a token, of a node per block around it, and of a name per
statement."""
HUGE, OF_HUGE, OF_TUPLE = 2**60, 5_000, 3_000
"""Integers from here on can be made to collide as keys, and so can tuples and ranges, unless they
hold only texts. Each counts as so many characters."""


class Overrun(Exception):
    """A template exceeds the cost of a rendering."""


_LEFT: ContextVar[list[int]] = ContextVar("left")


@contextmanager
def bounded() -> Iterator[None]:
    """Context manager that bounds the compiling and rendering of `BoundedEnvironment` templates.

    Raises:
        Overrun: a template exceeds the bounds.
    """
    token = _LEFT.set([MOST])
    try:
        yield
    finally:
        _LEFT.reset(token)


def charge(cost: int) -> None:
    left = _LEFT.get()
    left[0] -= cost
    if left[0] < 0:
        raise Overrun(
            f"the template handles more than {MOST:,} characters, where each step counts as"
            f" {STEP}; shorten its loops, repetitions and texts"
        )


_TEXTS = (str, bytes)


def weight_of(value: Any) -> int:
    """Return the cost of a value in characters, including its content. Counting stops above
    MOST."""
    if isinstance(value, _TEXTS):
        return STEP + len(value)
    total, waiting = 0, [value]
    while waiting and total <= MOST:
        value = waiting.pop()
        total += STEP
        if isinstance(value, _TEXTS):
            total += len(value)
        elif isinstance(value, int):
            total += value.bit_length() // 8 + (OF_HUGE if abs(value) >= HUGE else 0)
        elif isinstance(value, range):
            largest = max(abs(value.start), abs(value.stop))
            total += OF_TUPLE + len(value) * (OF_HUGE if largest >= HUGE else STEP)
        elif inner := _held_in(value):
            total += len(inner)
            if isinstance(value, tuple) and not all(isinstance(held, _TEXTS) for held in inner):
                total += OF_TUPLE
            waiting += inner if total <= MOST else ()
    return total


class OneShot(Iterator[Any]):
    """Computed values that act as a generator: always true, without a length, iterated once."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = deque(values)

    def __next__(self) -> Any:
        if not self.values:
            raise StopIteration
        return self.values.popleft()


def _held_in(value: Any) -> Sequence[Any]:
    if isinstance(value, Namespace):
        value = value._Namespace__attrs
    elif isinstance(value, OneShot):
        value = value.values
    elif isinstance(value, LoopContext):
        return (value._iterable,)
    if isinstance(value, dict | MappingProxyType):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, set | frozenset | deque | KeysView | ValuesView | ItemsView):
        return [*value]
    return ()


def weighed(value: Any) -> Any:
    """Return the value, after charging its characters."""
    charge(STEP + len(value) if type(value) is str else weight_of(value))
    return value


def _size(value: Any) -> int:
    """Return the cost of an argument: a number's value, or the length of anything else."""
    return abs(value) if isinstance(value, int) else weight_of(value) - STEP


def numbers_in(text: str) -> int:
    """Return the sum of the numbers in a format, because any of them may be a width."""
    return sum(map(int, re.findall(r"\d{1,15}", text)))


def _by_width(*values: Any) -> int:
    return STEP * sum(map(_size, values))


def _by_product(*values: Any) -> int:
    return prod(1 + _size(value) for value in values)


def _by_indent(*values: Any) -> int:
    return 20 * _by_product(*values)


def _by_characters(*values: Any) -> int:
    """Return the cost of making a value per character."""
    return 4 * sum(map(weight_of, values))


def _by_items(values: Any, *options: Any) -> int:
    """Return the cost of handling each item in Python; options may hold a path to its attribute."""
    path = sum(len(option) for option in options if isinstance(option, str))
    return (5 * STEP + path) * len(values) if isinstance(values, Sized) else 0


def _by_comparisons(values: Any, *options: Any) -> int:
    """Return the cost of sorting, which compares each item with several others."""
    held = _held_in(values)
    nested = sum(weight_of(value) for value in held if _held_in(value))
    return _by_items(values, *options) + len(held).bit_length() * nested


def _by_square(*values: Any) -> int:
    return sum(map(weight_of, values)) ** 2 // 400


def _by_words(text: Any, options: Sequence[Any], share: int) -> int:
    """Return the cost of handling each word in Python, where an option may follow each. A word also
    costs a `share` of the square of its length."""
    weight = weight_of(text)
    cost = weight * (20 + sum(weight_of(option) - STEP for option in options))
    if cost > MOST or not isinstance(text, str):
        return cost
    longest = max((run.end() - run.start() for run in _RUN.finditer(text)), default=0)
    return cost + weight * longest // share


def _of_urlize(text: Any, *options: Any) -> int:
    return _by_words(text, options, 5)


def _of_wordwrap(text: Any, *options: Any) -> int:
    return _by_words(text, options, 500)


_RUN = re.compile(r"\s+|\S+")


def _of_codec(text: Any, encoding: Any = "utf-8", *_: Any) -> int:
    """Return the cost of encoding and decoding, which for some codecs is quadratic."""
    return weight_of(text) * (STEP if encoding in _FAST_CODECS else weight_of(text))


_FAST_CODECS = ("utf-8", "utf8", "ascii", "latin-1")


def _of_division(left: Any, right: Any) -> int:
    return cost_of_operator("%", left, right)


def cost_of_time(text: str) -> int:
    """Return the cost of formatting a time, for which C reserves 256 bytes per character."""
    return 256 * len(text) + numbers_in(text)


def _of_replace(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    if not (isinstance(text, str) and isinstance(old, str)):
        return _by_product(text, old, new)
    return text.count(old) * weight_of(new)


def _of_sum(values: Any, *options: Any) -> int:
    holds = any(_held_in(option) or isinstance(option, list | tuple) for option in options)
    return weight_of(values) ** 2 if holds else _by_items(values)


def cost_of_format(text: str, *values: Any) -> int:
    """Return the cost of `text % values`, where an asterisk takes its width from the values."""
    widths = sum(_size(inner) for value in values for inner in (value, *_held_in(value)))
    return (
        numbers_in(text)
        + text.count("%") * sum(map(weight_of, values))
        + (widths if "*" in text else 0)
    )


_COSTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "batch", "slice", "round"), _by_width),
    **dict.fromkeys(("list", "split", "splitlines", "title", "urlencode"), _by_characters),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _by_items),
    **dict.fromkeys(("groupby", "sort", "unique", "min", "max", "dictsort"), _by_comparisons),
    **dict.fromkeys(("join", "indent", "expandtabs", "translate", "to_bytes"), _by_product),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _by_product),
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _by_product),
    **dict.fromkeys(("striptags", "pprint"), _by_square),
    "urlize": _of_urlize,
    "wordwrap": _of_wordwrap,
    **dict.fromkeys(("encode", "decode"), _of_codec),
    "divisibleby": _of_division,
    "tojson": _by_indent,
    "replace": _of_replace,
    "sum": _of_sum,
}
"""Cost of filters and methods by name, on top of reading their arguments."""


def cost_of_json(value: Any, *options: Any) -> int:
    """Cost of `json.dumps`; options may hold an indent and separators."""
    return 5 * weight_of(value) * (1 + sum(map(_breadth, options)))


def _breadth(option: Any) -> int:
    if isinstance(option, list | tuple):
        return sum(map(_breadth, option))
    return len(option) if isinstance(option, _TEXTS) else abs(option or 0)


def charge_call(name: str, values: Sequence[Any], cost: Callable[..., int] | None = None) -> None:
    """Charge a call for its arguments, and for what a function of that `name` does with them."""
    total = STEP
    for value in values:
        total += STEP + len(value) if type(value) is str else weight_of(value)
    charge(total)
    if cost := cost or _COSTS.get(name):
        charge(cost(*values))


def cost_of_operator(operator: str, left: Any, right: Any) -> int:
    """Return the cost of an operator between two values."""
    if isinstance(left, int) and isinstance(right, int):
        if operator == "**":
            return int((1 + left.bit_length() * max(right, 0) // 30) ** 2)
        return (1 + left.bit_length() // 30) * (1 + right.bit_length() // 30)
    if operator == "%" and isinstance(left, _TEXTS):
        text = left if isinstance(left, str) else left.decode("latin-1")
        return weight_of(left) + cost_of_format(text, right)
    if operator == "*" and isinstance(left, int):
        left, right = right, left
    if operator == "*" and isinstance(right, int) and not isinstance(left, float):
        return (1 + abs(right)) * weight_of(left)
    return weight_of(left) + weight_of(right)


_FREE = {
    "default", "d", "length", "count", "first", "last", "attr",
    "boolean", "callable", "defined", "escaped", "false", "filter", "integer", "iterable",
    "mapping", "none", "number", "sameas", "sequence", "test", "true", "undefined",
}  # fmt: skip
"""Filters and tests with constant cost for any value."""
_FORMATS = ("format", "format_map")
_METHODS = (BuiltinMethodType, MethodType)
_OF_JINJA = {"_loop_vars", "_block_vars"}
"""Arguments that Jinja adds to every call within a loop or block."""
_LOOKS_UP = ("get", "items", "keys", "values")


@pass_context
def _tick(context: Context, characters: int) -> bool:  # noqa: ARG001  # else it is run when compiled
    charge(characters)
    return True


def _in_order(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of the function's parameters, with defaults."""
    try:
        bound = _signature(function).bind(*args, **options)
    except (TypeError, ValueError):  # the call fails, or the function does not name its parameters
        return (*args, *options.values())
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


@lru_cache(maxsize=512)
def _signature(function: Callable[..., Any]) -> Signature:
    return signature(function)


def _charged(
    name: str,
    function: Callable[..., Any],
    kind: Callable[[Iterator[Any]], Any],
    cost: Callable[..., int] | None = None,
) -> Callable[..., Any]:
    """Wrap a filter or test with a charge, and return what is lazy as `kind`, computed at once."""
    plain = unwrap(function)
    skipped, hidden = (0 if _PassArg.from_obj(f) is None else 1 for f in (function, plain))

    def charged(*args: Any, **options: Any) -> Any:
        values = args[skipped:]
        if options:
            values = _in_order(plain, args[skipped - hidden :], options)[hidden:]
        charge_call(name, values, cost)
        if name == "format":
            charge(cost_of_format(str(values[0]), *values[1:]))
        result = function(*args, **options)
        lazy = type(result) is not str and isinstance(result, Iterator)
        return kind(_counted(result)) if lazy else result

    return update_wrapper(charged, function)


def _counted(values: Iterator[Any], cost: int = STEP) -> Iterator[Any]:
    for value in values:
        charge(cost)
        yield value


class _Charging(SandboxedFormatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(weighed(value), conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        charge(numbers_in(format_spec))
        return super().format_field(weighed(value), format_spec)


class _ChargingEscape(_Charging, SandboxedEscapeFormatter):
    """Escapes as the base class does, for text that is marked as safe."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a charge for every costly operation. See `bounded`.

    Filters that Jinja computes lazily return lists, or with `one_shot` iterators as in Jinja.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    intercepted_unops = frozenset(ImmutableSandboxedEnvironment.default_unop_table)

    def __init__(self, *, one_shot: bool = False, **options: Any) -> None:
        super().__init__(finalize=weighed, optimized=False, **options)
        del self.globals["lipsum"]
        self._kind: Callable[[Iterator[Any]], Any] = OneShot if one_shot else list
        tables: list[dict[str, Any]] = [self.filters, self.tests]
        for table in tables:
            table |= {name: _charged(name, table[name], self._kind) for name in {*table} - _FREE}
        self.filters |= {_WEIGHED: weighed, _TICK: _tick}

    def add_filter(self, name: str, function: Callable[..., Any], cost: Callable[..., int]) -> None:
        """Add a filter whose calls have a `cost`, besides reading their arguments."""
        self.filters[name] = _charged(name, function, self._kind, cost)

    def _tokenize(self, source: str, *place: Any) -> TokenStream:
        charge(OF_SOURCE * len(source) + OF_TOKEN * source.count("{#"))
        stream = super()._tokenize(source, *place)
        stream._iter = _counted(stream._iter, OF_TOKEN)
        return stream

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        marking = _Marking()
        tree: nodes.Template = marking.visit(super()._parse(source, name, filename))
        charge(OF_NAME * marking.statements * len(marking.names))
        tree.set_environment(self)
        return tree

    def handle_exception(self, source: str | None = None) -> NoReturn:  # noqa: ARG002
        """Raise the current error. Jinja's own method builds a traceback with the lines of the
        template, whose cost is not bounded."""
        error = sys.exception()
        assert error is not None
        if isinstance(error, TemplateSyntaxError):
            error.translated = True  # its text is its message
        raise error

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        charge(STEP + cost_of_operator(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return super().call_unop(context, operator, weighed(arg))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs[name] for name in kwargs.keys() - _OF_JINJA}
        values = (*args, *given.values())
        if isinstance(__obj, _METHODS):
            name, owner = __obj.__name__, __obj.__self__
            if name in _FORMATS and isinstance(owner, str):
                __obj = __self.wrap_str_format(__obj)
            looks_up = isinstance(owner, LoopContext) or (
                isinstance(owner, dict) and name in _LOOKS_UP
            )
            charge_call(name, values if looks_up else (owner, *values))
        else:
            charge_call("", () if isinstance(__obj, Macro) else values)
            charge(len(values))
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Wrap `str.format` with formatters that charge, like the sandbox's own method."""
        if not isinstance(value, _METHODS) or value.__name__ not in _FORMATS:
            return None
        text = value.__self__
        if not isinstance(text, str):
            return None
        formatter = _Charging(self)
        if isinstance(text, Markup):
            formatter = _ChargingEscape(self, escape=text.escape)

        def formatted(*args: Any, **kwargs: Any) -> str:
            if value.__name__ == "format_map":
                (mapping,) = args
                args, kwargs = (), mapping
            charge(weight_of(text))
            return type(text)(formatter.vformat(text, args, kwargs))

        return update_wrapper(formatted, value)


_WEIGHED, _TICK = "(weighed)", "(tick)"
"""Filters that no template can name."""


class _Marking(NodeTransformer):
    """Makes a template charge for operations that call no method of its environment, and charges
    for the nesting of its blocks."""

    def __init__(self) -> None:
        self.size = self.statements = 0
        self.names: set[str] = set()

    def visit(self, node: nodes.Node, *_: Any, **__: Any) -> Any:
        """Visit a node. Its size is the number of nodes in it and the length of its texts."""
        before = self.size
        self.size += 2 + len(node.data) if isinstance(node, nodes.TemplateData) else 2
        if isinstance(node, nodes.Name):
            self.names.add(node.name)
        elif isinstance(node, nodes.FromImport):
            self.names.update(map(str, node.names))
        self.statements += isinstance(node, nodes.Stmt)
        visited = (self.get_visitor(node) or self.generic_visit)(node)
        if hasattr(node, "body"):
            charge(OF_NESTED * (self.size - before))
        return visited

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.test is not None:
            node.test = nodes.And(_ticking(node, 0), node.test, lineno=node.lineno)
        return self._marked(node)

    def _marked(self, node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        """Charge a node whose body may run more than once."""
        before = self.size
        self.generic_visit(node)
        cost = _ticking(node, self.size - before)
        node.body.insert(0, nodes.ExprStmt(cost, lineno=node.lineno))
        return node

    visit_Macro = visit_CallBlock = visit_Block = _marked

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _weighing(node.expr)
        for operand in node.ops:
            operand.expr = _weighing(operand.expr)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [*map(_weighing, node.nodes)]
        return node

    def visit_List(self, node: nodes.List | nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        if getattr(node, "ctx", "load") == "load":
            node.items = [*map(_weighing, node.items)]
        return node

    visit_Tuple = visit_List

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key, node.value = _weighing(node.key), _weighing(node.value)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _weighing(node.node)
        else:
            node.arg = _weighing(node.arg)
        return node


def _weighing(node: nodes.Expr) -> nodes.Expr:
    if isinstance(node, nodes.Const):
        return node
    return nodes.Filter(node, _WEIGHED, [], [], None, None, lineno=node.lineno)


def _ticking(node: nodes.Node, characters: int) -> nodes.Expr:
    cost = nodes.Const(STEP + characters, lineno=node.lineno)
    return nodes.Filter(cost, _TICK, [], [], None, None, lineno=node.lineno)
