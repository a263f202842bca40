"""The sandbox as a tool: runs code that an agent wrote, and tells what it printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collab.records import ToolSpec
from collab.sandbox import Sandbox, Trial
from collab.tools.base import Tool

SPEC = ToolSpec(
    name="python",
    description=(
        "Runs Python code and tells what it printed, and the value of its last line where that is"
        " an expression. Every call starts anew: nothing is kept from the one before. There are no"
        " files, no network, and no modules but those of Python itself."
    ),
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The code to run."}},
        "required": ["code"],
        "additionalProperties": False,
    },
)
PROGRAM = """\
def run():
    import ast, contextlib, io, sys, traceback
    said = io.StringIO()
    space = {{"__name__": "__main__"}}
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            tree = ast.parse(CODE, "code.py")
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                last = ast.Expression(tree.body.pop().value)
            exec(compile(tree, "code.py", "exec"), space)
            value = eval(compile(last, "code.py", "eval"), space) if last else None
            if value is not None:
                print(repr(value))
        except BaseException as error:
            walked = traceback.walk_tb(error.__traceback__)
            lines = [line for f, line in walked if f.f_code.co_filename == "code.py"]
            print(*traceback.format_exception_only(error), sep="", end="")
            if lines:
                print("in line", lines[-1])
    return said.getvalue()[:{most}]

CODE = {code!r}
"""
TEST = "def check(run):\n    return run()\n"
MOST = 100_000
"""Characters that come out of the sandbox."""
NOTHING = "(nothing was printed)"


def python_tool(sandbox: Sandbox) -> Tool:
    """The tool `python`. Its limits are those of the recipe's `sandbox`."""

    async def run(arguments: Mapping[str, Any]) -> str:
        code = arguments.get("code")
        if not isinstance(code, str) or len(arguments) > 1:
            raise ValueError('python takes one argument, "code", a string')
        program = PROGRAM.format(code=code, most=MOST)
        verdict = await sandbox.check(Trial(program=program, entry_point="run", test=TEST))
        if verdict.returned is None:
            return f"Error: {verdict.error}"
        return verdict.returned.rstrip() or NOTHING

    return Tool(SPEC, run)
