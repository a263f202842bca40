"""Sandboxed templates with bounded rendering cost, since their authors may be anyone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, time
from functools import lru_cache, update_wrapper
from inspect import signature, unwrap
from numbers import Number
from types import BuiltinMethodType, MethodType, NoneType
from typing import Any, NoReturn

from jinja2 import TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.lexer import TokenStream
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from jinja2.utils import _PassArg
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from collab.trust.template_costs import (
    CHARACTER_COST,
    NAME_COST,
    NESTING_COST,
    STEP_COST,
    TOKEN_COST,
    OneShot,
    charge,
    charge_call,
    charge_value,
    contents_of,
    cost_of_format,
    cost_of_operator,
    sum_of_numbers,
    weight_of,
)

_CONSTANT_COST_FILTERS = {
    "default", "d", "length", "count", "first", "last", "attr",
    "boolean", "callable", "defined", "escaped", "false", "filter", "integer", "iterable",
    "mapping", "none", "number", "sameas", "sequence", "test", "true", "undefined",
}  # fmt: skip
"""Filters and tests with constant cost for any value."""
_FORMAT_METHODS = ("format", "format_map")
_METHOD_TYPES = (BuiltinMethodType, MethodType)
_JINJA_ARGUMENTS = {"_loop_vars", "_block_vars"}
"""Arguments that Jinja adds to every call within a loop or block."""
_LOOKUP_METHODS = ("get", "items", "keys", "values")
_SCALAR_TYPES = (str, bytes, Number, NoneType, Undefined, date, time)
_CONTAINER_TYPES = (Sequence, Mapping, Set, ValuesView, OneShot)


def _check_data(value: Any) -> None:
    """Raise SecurityError for functions and other objects, whose text would show internals."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _SCALAR_TYPES):
            continue
        if isinstance(value, _CONTAINER_TYPES):
            waiting += contents_of(value)
            continue
        if not callable(value):
            raise SecurityError(f"a template cannot print an object of type {type(value).__name__}")
        name = getattr(value, "__name__", None) or getattr(value, "name", "")
        raise SecurityError(
            f"a template cannot print the function '{name}' itself; call it: {name}(); or read a"
            f" field of this name: ['{name}']"
        )


def _charge_output(value: Any) -> Any:
    """Return a value that becomes text, after charging its characters."""
    charge_value(value)
    _check_data(value)
    return value


@pass_context  # otherwise, it is run when compiled
def _charge_step(_: Context, characters: int) -> bool:
    charge(characters)
    return True


def _ordered_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of the function's parameters, with defaults."""
    try:
        bound = _signature(function).bind(*args, **options)
    except (TypeError, ValueError):  # the call fails, or the function does not name its parameters
        return (*args, *options.values())
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


_signature = lru_cache(maxsize=512)(signature)


def _wrap_with_charge(
    name: str,
    function: Callable[..., Any],
    collect: Callable[[Iterator[Any]], Any],
    cost: Callable[..., int] | None = None,
    *,
    is_filter: bool = True,
) -> Callable[..., Any]:
    """Wrap a filter or test with a charge. If its result is lazy, `collect` computes it at once.

    A filter accepts data only, because it may turn anything into text.
    """
    plain = unwrap(function)
    skipped, hidden = (0 if _PassArg.from_obj(f) is None else 1 for f in (function, plain))

    def charge_and_call(*args: Any, **options: Any) -> Any:
        values = args[skipped:]
        if options:
            values = _ordered_arguments(plain, args[skipped - hidden :], options)[hidden:]
        charge_call(name, values, cost)
        if is_filter:
            _check_data(values)
        if name == "format":
            charge(cost_of_format(str(values[0]), *values[1:]))
        result = function(*args, **options)
        lazy = type(result) is not str and isinstance(result, Iterator)
        return collect(_charge_items(result)) if lazy else result

    return update_wrapper(charge_and_call, function)


def _charge_items(values: Iterator[Any], cost: int = STEP_COST) -> Iterator[Any]:
    for value in values:
        charge(cost)
        yield value


class _ChargingFormatter(SandboxedFormatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(_charge_output(value), conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        charge(sum_of_numbers(format_spec))
        return super().format_field(_charge_output(value), format_spec)


class _ChargingEscapeFormatter(_ChargingFormatter, SandboxedEscapeFormatter):
    """Escapes as the base class does, for text that is marked as safe."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a charge for every costly operation. See `bounded`.

    Filters that Jinja computes lazily return lists, or with `one_shot` iterators as in Jinja.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    intercepted_unops = frozenset(ImmutableSandboxedEnvironment.default_unop_table)

    def __init__(self, *, one_shot: bool = False, **options: Any) -> None:
        super().__init__(finalize=_charge_output, optimized=False, **options)
        del self.globals["lipsum"]
        self._collect: Callable[[Iterator[Any]], Any] = OneShot if one_shot else list
        tables: list[dict[str, Any]] = [self.tests, self.filters]
        for table in tables:
            is_filter = table is self.filters
            table |= {
                name: _wrap_with_charge(name, table[name], self._collect, is_filter=is_filter)
                for name in {*table} - _CONSTANT_COST_FILTERS
            }
        self.filters |= {
            _VALUE_FILTER: charge_value,
            OUTPUT_FILTER: _charge_output,
            _STEP_FILTER: _charge_step,
        }

    def add_filter(self, name: str, function: Callable[..., Any], cost: Callable[..., int]) -> None:
        """Add a filter whose calls have a `cost`, in addition to reading their arguments."""
        self.filters[name] = _wrap_with_charge(name, function, self._collect, cost)

    def _tokenize(self, source: str, *place: Any) -> TokenStream:
        charge(CHARACTER_COST * len(source) + TOKEN_COST * source.count("{#"))
        stream = super()._tokenize(source, *place)
        stream._iter = _charge_items(stream._iter, TOKEN_COST)
        return stream

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        inserter = _ChargeInserter()
        tree: nodes.Template = inserter.visit(super()._parse(source, name, filename))
        charge(NAME_COST * inserter.statements * len(inserter.names))
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
        charge(STEP_COST + cost_of_operator(operator, left, right))
        if operator == "%" and isinstance(left, str | bytes):
            _check_data(right)
        return super().call_binop(context, operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return super().call_unop(context, operator, charge_value(arg))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        options = {name: kwargs[name] for name in kwargs.keys() - _JINJA_ARGUMENTS}
        values = (*args, *options.values())
        if isinstance(__obj, _METHOD_TYPES):
            name, owner = __obj.__name__, __obj.__self__
            if name in _FORMAT_METHODS and isinstance(owner, str):
                __obj = __self.wrap_str_format(__obj)
            is_lookup = isinstance(owner, LoopContext) or (
                isinstance(owner, dict) and name in _LOOKUP_METHODS
            )
            charge_call(name, values if is_lookup else (owner, *values))
        else:
            charge_call("", () if isinstance(__obj, Macro) else values)
            charge(len(values))
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Wrap `str.format` with formatters that charge, like the sandbox's own method."""
        if not isinstance(value, _METHOD_TYPES) or value.__name__ not in _FORMAT_METHODS:
            return None
        text = value.__self__
        if not isinstance(text, str):
            return None
        formatter = _ChargingFormatter(self)
        if isinstance(text, Markup):
            formatter = _ChargingEscapeFormatter(self, escape=text.escape)

        def formatted(*args: Any, **kwargs: Any) -> str:
            if value.__name__ == "format_map":
                (mapping,) = args
                args, kwargs = (), mapping
            charge(weight_of(text))
            return type(text)(formatter.vformat(text, args, kwargs))

        return update_wrapper(formatted, value)


_VALUE_FILTER, OUTPUT_FILTER, _STEP_FILTER = "(value)", "(output)", "(step)"
"""Filters that no template can name."""


class _ChargeInserter(NodeTransformer):
    """Makes a template charge for operations that call no method of its environment, and charges
    for the nesting of its blocks."""

    def __init__(self) -> None:
        self.size = self.statements = 0
        self.names: set[str] = set()

    def visit(self, node: nodes.Node, *_: Any, **__: Any) -> Any:
        """Visit a node. Its size is the number of nodes in it and the length of its text."""
        before = self.size
        self.size += 2 + len(node.data) if isinstance(node, nodes.TemplateData) else 2
        if isinstance(node, nodes.Name):
            self.names.add(node.name)
        elif isinstance(node, nodes.FromImport):
            self.names.update(map(str, node.names))
        self.statements += isinstance(node, nodes.Stmt)
        visited = (self.get_visitor(node) or self.generic_visit)(node)
        if hasattr(node, "body"):
            charge(NESTING_COST * (self.size - before))
        return visited

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.test is not None:
            node.test = nodes.And(_step_charge(node, 0), node.test, lineno=node.lineno)
        return self._charge_body(node)

    def _charge_body(
        self, node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block
    ) -> nodes.Node:
        """Charge a node whose body may run more than once."""
        before = self.size
        self.generic_visit(node)
        cost = _step_charge(node, self.size - before)
        node.body.insert(0, nodes.ExprStmt(cost, lineno=node.lineno))
        return node

    visit_Macro = visit_CallBlock = visit_Block = _charge_body

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _charge_expression(node.expr)
        for operand in node.ops:
            operand.expr = _charge_expression(operand.expr)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [_charge_expression(inner, OUTPUT_FILTER) for inner in node.nodes]
        return node

    def visit_List(self, node: nodes.List | nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        if getattr(node, "ctx", "load") == "load":
            node.items = [*map(_charge_expression, node.items)]
        return node

    visit_Tuple = visit_List

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key, node.value = _charge_expression(node.key), _charge_expression(node.value)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _charge_expression(node.node)
        else:
            node.arg = _charge_expression(node.arg)
        return node


def _charge_expression(node: nodes.Expr, name: str = _VALUE_FILTER) -> nodes.Expr:
    if isinstance(node, nodes.Const) and not isinstance(node.value, str | bytes):
        return node
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _step_charge(node: nodes.Node, characters: int) -> nodes.Expr:
    cost = nodes.Const(STEP_COST + characters, lineno=node.lineno)
    return nodes.Filter(cost, _STEP_FILTER, [], [], None, None, lineno=node.lineno)
