"""A function of the user's as a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic_core import to_json

from collab.errors import RecipeError, told
from collab.plugins import in_thread, load
from collab.records import ToolSpec
from collab.tools.base import Tool


def function_tool(reference: str) -> Tool:
    """The function at `file.py:function` or `module:function`, called by its own name.

    Its docstring is what the model is told of it; its parameters and their types are what the model
    may give. What it returns is told as text, and as JSON where it is not text.

    Raises:
        RecipeError: no such function, or one whose parameters JSON cannot describe.
    """
    function = load("tool", reference)
    checked, parameters = _described(reference, function)

    async def run(arguments: Mapping[str, Any]) -> str:
        try:
            value = await in_thread(checked, **arguments)
        except ValidationError as error:
            if error.title != checked.__name__:
                raise  # of the function's own making
            raise ValueError(_mismatch(error)) from None
        return value if isinstance(value, str) else to_json(value, fallback=repr).decode()

    name = reference.rpartition(":")[2]
    spec = ToolSpec(
        name=name, description=inspect.getdoc(function) or "", parameters=dict(parameters)
    )
    return Tool(spec, run)


def _described(
    reference: str, function: Callable[..., Any]
) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """The function with its arguments checked, and the JSON Schema of these."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, function))
        parameters = adapter.json_schema()
        checked = validate_call(function)
    except Exception as error:  # pydantic has many, for types and for signatures
        raise RecipeError(
            f"tool '{reference}' takes what JSON cannot describe: {told(error)}"
        ) from None
    if parameters.get("type") != "object":
        raise RecipeError(
            f"tool '{reference}' takes arguments without a name, which a model cannot give; make"
            f" its parameters plain ones: {inspect.signature(function)}"
        )
    return checked, parameters


def _mismatch(error: ValidationError) -> str:
    """What is wrong with each argument, in a line."""
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return f"the arguments do not fit: {'; '.join(found)}"
