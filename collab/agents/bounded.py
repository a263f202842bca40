"""Templates in a sandbox that also bounds what a rendering takes, since anyone may write one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import BuiltinMethodType, MethodType
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.runtime import Context, Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from jinja2.utils import _PassArg
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from collab.agents.budget import (
    STEP,
    charge,
    charge_call,
    cost_of_format,
    cost_of_operator,
    numbers_in,
    weighed,
    weight_of,
)

_FREE = {
    "default", "d", "length", "count", "first", "last", "attr",
    "boolean", "callable", "defined", "escaped", "false", "filter", "integer", "iterable",
    "mapping", "none", "number", "sameas", "sequence", "test", "true", "undefined",
}  # fmt: skip
"""Filters and tests that take the same time for any value."""
_FORMATS = ("format", "format_map")
_METHODS = (BuiltinMethodType, MethodType)
_LOOKS_UP = ("get", "items", "keys", "values")


@pass_context
def _tick(context: Context, characters: int) -> bool:  # noqa: ARG001  # else it is run when compiled
    charge(characters)
    return True


def _charged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test that is charged; one that would be computed later is computed at once."""
    skipped = 0 if _PassArg.from_obj(function) is None else 1

    def charged(*args: Any, **options: Any) -> Any:
        values = (*args[skipped:], *options.values()) if skipped or options else args
        charge_call(name, values)
        if name == "format":
            charge(cost_of_format(str(values[0]), *values[1:]))
        result = function(*args, **options)
        lazy = type(result) is not str and isinstance(result, Iterator)
        return [*_counted(result)] if lazy else result

    return update_wrapper(charged, function)


def _counted(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        charge(STEP)
        yield value


class _Charging(SandboxedFormatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(weighed(value), conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        charge(numbers_in(format_spec))
        return super().format_field(weighed(value), format_spec)


class _ChargingEscape(_Charging, SandboxedEscapeFormatter):
    """The same for text that is marked as safe."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which everything that costs is charged; see `bounded`."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    intercepted_unops = frozenset(ImmutableSandboxedEnvironment.default_unop_table)

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=weighed, **options)
        del self.globals["lipsum"]
        tables: list[dict[str, Any]] = [self.filters, self.tests]
        for table in tables:
            table |= {name: _charged(name, table[name]) for name in {*table} - _FREE}
        self.filters |= {_WEIGHED: weighed, _TICK: _tick}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Marking().visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        charge(STEP + cost_of_operator(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return super().call_unop(context, operator, weighed(arg))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        if isinstance(__obj, _METHODS):
            name, owner = __obj.__name__, __obj.__self__
            if name in _FORMATS and isinstance(owner, str):
                __obj = __self.wrap_str_format(__obj)
            looks_up = isinstance(owner, dict) and name in _LOOKS_UP
            charge_call(name, values if looks_up else (owner, *values))
        else:
            charge_call("", () if isinstance(__obj, Macro) else values)
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` with formatters that charge, as the sandbox has it."""
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
    """Has a template charge for what no method of its environment is called for."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.test is not None:
            node.test = nodes.And(_ticking(node, 0), node.test, lineno=node.lineno)
        return self._marked(node)

    def _marked(self, node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        """A node whose body runs more than once."""
        texts = sum(len(text.data) for text in node.find_all(nodes.TemplateData))
        node.body.insert(0, nodes.ExprStmt(_ticking(node, texts), lineno=node.lineno))
        self.generic_visit(node)
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
