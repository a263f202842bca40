"""Prompt templates: Jinja2, sandboxed, over the fields that an agent may see."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache, partial, update_wrapper
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError
from jinja2 import Template as JinjaTemplate
from jinja2.runtime import Context

from collab.agents.parsers import docstring, signature
from collab.errors import AgentError, RecipeError, nearest_name
from collab.syntax import MAX_CHARACTERS
from collab.trust.bounded import OUTPUT_FILTER, BoundedEnvironment
from collab.trust.template_costs import Overrun, bounded, charge

_EMPTY_FIELD_HINTS = {
    "others": "the protocol shows this agent no other answers; your own can, with `sees`",
    "previous": "only sequential and discussion teams see `previous`, from the second turn on; your"
    " own protocol passes it as `previous=turn.previous`",
}


class Template:
    """A prompt with `{{ fields }}`.

    Raises:
        RecipeError: on construction, if the template does not parse.
    """

    def __init__(self, source: str, place: str, *, as_written: bool = False) -> None:
        """Compile the template. Unless `as_written`, strip whitespace around it and its blocks."""
        self.place, self._as_written = place, as_written
        try:
            self._template = _compile(source, as_written)
        except TemplateSyntaxError as error:
            raise RecipeError(f"{place}, line {error.lineno}: {error.message}") from error
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise RecipeError(f"{place}: the template is nested too deeply: {error}") from error
        except (Overrun, ValueError) as error:  # a number with thousands of digits
            raise RecipeError(f"{place}: {error}") from error

    def render(self, *, _hidden: Collection[str] = (), **fields: Any) -> str:
        """Return the text of the template with these fields.

        Args:
            _hidden: names of the task's hidden fields, for the error of a template that uses them.

        Raises:
            AgentError: the template uses an unknown field, or fails.
        """
        named = {
            name: _TemplateFields(name, value, _hidden if name == "task" else ())
            if isinstance(value, dict)
            else value
            for name, value in fields.items()
        }
        try:
            with bounded():
                text = self._template.render(named)
        except Overrun as error:
            raise AgentError(f"{self.place}: {error}") from error
        except UndefinedError as error:
            unknown = (error.message or "").endswith(" is undefined")  # a top-level name
            known = f"; known: {', '.join(fields)}" if unknown else ""
            raise AgentError(f"{self.place}: {error.message}{known}") from error
        except Exception as error:  # any exception of an expression in the template
            raise AgentError(f"{self.place}: {type(error).__name__}: {error}") from error
        return text if self._as_written else text.strip()


class _TemplateFields(dict[str, Any]):
    """A mapping that templates see, with its name in the template."""

    def __init__(self, called: str, values: dict[str, Any], hidden: Collection[str] = ()) -> None:
        super().__init__(values)
        self._name, self._hidden, self._values = called, hidden, values

    def __str__(self) -> str:
        return str(self._values)

    def _missing_name_error(self, name: str) -> str:
        """Return the error for a template that uses an unknown name."""
        if name in self._hidden:
            return f"'{name}' is a hidden field; no agent sees it{self._describe_known()}"
        if not self and self._name in _EMPTY_FIELD_HINTS:
            return f"{self._name} has no '{name}': {_EMPTY_FIELD_HINTS[self._name]}"
        close = nearest_name(name, self)
        remedy = f" (did you mean '{close}'?)" if close else ""
        return f"{self._name} has no '{name}'{remedy}{self._describe_known()}"

    def _describe_known(self) -> str:
        whose = "the task's fields" if self._name == "task" else f"the fields of {self._name}"
        return f"; {whose}: {', '.join(self) or 'none'}"


_LOOP_METHODS = ("items", "keys", "values", "get")


class _Environment(BoundedEnvironment):
    """An environment in which `task.items` is the field `items` of the task, if it has one.

    In mappings by agent, such as `others`, `items` stays the method, also with an agent `items`.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:
        is_field = isinstance(obj, _TemplateFields) and attribute in obj
        if is_field and (obj._name == "task" or attribute not in _LOOP_METHODS):
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            for value in right if isinstance(right, tuple) else (right,):
                _check_printed(value)
        return super().call_binop(context, operator, left, right)


MISSING_NAME_COST = 2_000
"""Cost of the error for a missing name per known name, because it compares them."""


class _MissingName(StrictUndefined):
    """A missing name, which reports the existing ones."""

    @property
    def _undefined_message(self) -> str:
        fields = self._undefined_obj
        if isinstance(fields, _TemplateFields) and self._undefined_hint is None:
            charge(MISSING_NAME_COST * len(fields))  # a template may hide the error, and repeat it
            return fields._missing_name_error(str(self._undefined_name))
        return str(super()._undefined_message)


def _check_printed(value: Any) -> Any:
    if value is None:
        raise UndefinedError(
            "it prints a field that is null; fill it in, or write {% if task.FIELD %}"
        )
    return value


_TEXT_FILTERS = (
    "string", "upper", "lower", "title", "capitalize", "trim", "replace", "escape", "e",
    "forceescape", "format", "urlencode",
)  # fmt: skip


def _filter_text(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Apply a filter to texts, or refuse null among them. Some filters take a context, too."""
    for value in (*args, *options.values()):
        _check_printed(value)
    return function(*args, **options)


def _parsing_cost(prompt: str) -> int:
    return 50 * min(len(prompt), MAX_CHARACTERS)


@cache
def _environment(as_written: bool) -> _Environment:
    environment = _Environment(
        undefined=_MissingName,
        autoescape=False,
        trim_blocks=not as_written,
        lstrip_blocks=not as_written,
        keep_trailing_newline=as_written,
    )
    environment.add_filter("signature", signature, _parsing_cost)
    environment.add_filter("docstring", docstring, _parsing_cost)
    for name in _TEXT_FILTERS:
        function = environment.filters[name]
        environment.filters[name] = update_wrapper(partial(_filter_text, function), function)
    charge_output: Any = environment.finalize
    environment.finalize = lambda value: charge_output(_check_printed(value))
    environment.filters[OUTPUT_FILTER] = environment.finalize
    return environment


@lru_cache(maxsize=512)
def _compile(source: str, as_written: bool) -> JinjaTemplate:
    with bounded():
        return _environment(as_written).from_string(source)
