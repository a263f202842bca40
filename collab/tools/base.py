"""A tool: its description for the model, and its call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import to_json

from collab.errors import CollabError, RecipeError, format_error
from collab.plugins import load_function
from collab.records import ToolSpec
from collab.sandbox import Sandbox, Trial
from collab.threads import run_in_thread
from collab.wording import list_errors

ERROR_PREFIX = "Error: "
"""The beginning of a failed call's result."""


@dataclass(frozen=True)
class Tool:
    """A function that an agent may call with arguments, and that answers in text."""

    spec: ToolSpec
    run: Callable[[Mapping[str, Any]], Awaitable[str]]

    async def answer(self, arguments: Mapping[str, Any], *, seconds: float) -> str:
        """Call the tool within `seconds`, and return its answer. An error of the tool is also
        returned as an answer. Half of a surrogate pair, as in some file names, is escaped.

        Raises:
            CollabError: an internal failure, such as an unavailable sandbox.
        """
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                answer = await self.run(arguments)
        except CollabError:
            raise
        except Exception as error:
            stopped = f"{self.spec.name} was stopped at its time limit of {seconds:g} s"
            answer = f"{ERROR_PREFIX}{stopped if limit.expired() else format_error(error)}"
        return answer.encode(errors="backslashreplace").decode()


def function_tool(reference: str) -> Tool:
    """Return a tool for the function at `file.py:function` or `module:function`. The tool has the
    function's name.

    The function's docstring is the description for the model. The parameters and their types become
    the schema. The result is passed on as text, or as JSON if it is not text.

    Raises:
        RecipeError: there is no such function, or JSON cannot describe its parameters.
    """
    function = load_function("tool", reference)
    checked, parameters = _validate_arguments(reference, function)

    async def run(arguments: Mapping[str, Any]) -> str:
        try:
            value = await run_in_thread(checked, **arguments)
        except ValidationError as error:
            if error.title != checked.__name__:
                raise  # of the function's own making
            raise ValueError(f"the arguments do not fit: {'; '.join(list_errors(error))}") from None
        except CollabError as error:  # e.g. of a team that the function runs
            return f"{ERROR_PREFIX}{format_error(error)}"
        return value if isinstance(value, str) else to_json(value, fallback=repr).decode()

    name = reference.rpartition(":")[2]
    spec = ToolSpec(
        name=name, description=inspect.getdoc(function) or "", parameters=dict(parameters)
    )
    return Tool(spec, run)


def _validate_arguments(
    reference: str, function: Callable[..., Any]
) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """Return the function with its arguments checked, and their JSON Schema."""
    from pydantic import TypeAdapter, validate_call  # slow to import

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, function))
        parameters = adapter.json_schema()
        checked = validate_call(function)
    except Exception as error:  # pydantic has many, for types and for signatures
        raise RecipeError(
            f"tool '{reference}' takes arguments that JSON cannot describe: {format_error(error)}"
        ) from None
    if parameters.get("type") != "object":
        raise RecipeError(
            f"tool '{reference}' takes positional-only or variadic arguments, which a model cannot"
            f" give; use plain parameters: {inspect.signature(function)}"
        )
    return checked, parameters


PYTHON_SPEC = ToolSpec(
    name="python",
    description=(
        "Runs Python code. Returns what it printed, and the value of the last line if that line is"
        " an expression. Calls share no state. Files and the network are not available, and only"
        " the standard library can be imported."
    ),
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The code to run."}},
        "required": ["code"],
        "additionalProperties": False,
    },
)
PYTHON_PROGRAM = """\
def run():
    import ast, contextlib, io, sys, traceback
    output = io.StringIO()
    namespace = {{"__name__": "__main__"}}
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            tree = ast.parse(CODE, "code.py")
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                last = ast.Expression(tree.body.pop().value)
            exec(compile(tree, "code.py", "exec"), namespace)
            value = eval(compile(last, "code.py", "eval"), namespace) if last else None
            if value is not None:
                print(repr(value))
        except BaseException as error:
            frames = traceback.walk_tb(error.__traceback__)
            lines = [line for f, line in frames if f.f_code.co_filename == "code.py"]
            print(*traceback.format_exception_only(error), sep="", end="")
            if lines:
                print("in line", lines[-1])
    return output.getvalue()[:{limit}]

CODE = {code!r}
"""
PYTHON_TEST = "def check(run):\n    return run()\n"
MAX_CHARACTERS = 100_000
"""Maximum number of characters of a tool's result, and of its description."""
NO_OUTPUT = "(nothing was printed)"


def python_tool(sandbox: Sandbox) -> Tool:
    """Return the tool `python`, which runs code in the sandbox under its limits."""

    async def run(arguments: Mapping[str, Any]) -> str:
        code = arguments.get("code")
        if not isinstance(code, str) or len(arguments) > 1:
            raise ValueError('python takes one argument, "code", a string')
        program = PYTHON_PROGRAM.format(code=code, limit=MAX_CHARACTERS)
        verdict = await sandbox.check(Trial(program=program, entry_point="run", test=PYTHON_TEST))
        if verdict.returned is None:
            return f"{ERROR_PREFIX}{verdict.error}"
        return verdict.returned.rstrip() or NO_OUTPUT

    return Tool(PYTHON_SPEC, run)
