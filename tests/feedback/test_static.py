"""Static analysis, with the real ruff and mypy."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collab.errors import FeedbackError
from collab.feedback import Outcome
from collab.feedback.static import Static
from collab.feedback.tools import Batcher, Tool, find_tool
from collab.recipe.feedback import StaticFeedback
from collab.records import Feedback, Finding, Problem

OutcomeOf = Callable[..., Outcome]

AUX = "def aux(x):\n    return x * x"
MAIN = "def sum_of_squares(xs):\n    return sum(aux(x) for x in xs)"


def give_feedback(outcome: Outcome, **settings: Any) -> dict[str, Feedback]:
    async def go() -> dict[str, Feedback]:
        source = Static(StaticFeedback(**settings))
        try:
            return await source.give_feedback(outcome)
        finally:
            await source.aclose()

    return asyncio.run(go())


def codes(feedback: Feedback) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.line) for finding in feedback.findings]


def test_sound_code(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux=AUX, main=MAIN))
    assert told["aux"].text == "Static analysis:\n- `aux` is defined"
    assert told["main"].text == (
        "Static analysis:\n- `sum_of_squares` is defined\n"
        "- `sum_of_squares` calls `aux` and uses its value"
    )


def test_findings_are_in_each_agents_own_lines(outcome_of: OutcomeOf) -> None:
    aux = "import os\n\n\ndef aux(x):\n    return y * x"
    main = "def sum_of_squares(xs):\n    unused = 1\n    return sum(map(aux, xz))"
    told = give_feedback(outcome_of(aux=aux, main=main))
    assert ("F821", 5) in codes(told["aux"])
    assert ("F401", 1) in codes(told["aux"])
    assert ("F841", 2) in codes(told["main"])
    assert ("F821", 3) in codes(told["main"])
    assert "line 3: F821 Undefined name `xz`" in told["main"].text
    assert all(finding.source in ("ast", "ruff") for finding in told["main"].findings)


def test_leading_blank_lines_count(outcome_of: OutcomeOf) -> None:
    told = give_feedback(
        outcome_of(aux=AUX, main="\n\ndef sum_of_squares(xs):\n    return aux(xz)")
    )
    assert ("F821", 4) in codes(told["main"])


def test_what_others_provide_is_not_undefined(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux="def aux(x):\n    return math.sqrt(x)", main=MAIN))
    assert "F821" not in str(told)


def test_a_helper_that_is_missing(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux="def other(x):\n    return x", main=MAIN))
    assert "your code does not define `aux`" in told["aux"].text
    assert "F821 Undefined name `aux`" in told["main"].text


def test_lines_that_a_remark_names_are_the_agents_own(outcome_of: OutcomeOf) -> None:
    main = "import math\nimport os\n\nimport os\n\ndef sum_of_squares(xs):\n    return aux(os)"
    told = give_feedback(outcome_of(aux=AUX, main=main))["main"].text
    assert "line 4: F811 Redefinition of unused `os` from line 2" in told
    assert "line 1: F811 Redefinition of unused `math` from what the prompt gives" in told
    told = give_feedback(outcome_of(aux=f"import os\n{AUX}", main=main))["main"].text
    assert "line 2: F811 Redefinition of unused `os` from line 1 of aux" in told


def test_no_code_at_all(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux="", main=MAIN))
    assert told["aux"].text == "Static analysis:\n- no code was found in your answer"


def test_a_function_that_returns_nothing(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux="def aux(x):\n    print(x)", main=MAIN))
    assert "`aux` returns no value" in told["aux"].text


@pytest.mark.parametrize(
    ("main", "message"),
    [
        ("return sum(xs)", "never calls `aux`"),
        ("aux(xs)\n    return 1", "line 2: the value of `aux` is not used"),
        ("if False: aux(1)\n    return 1", "never calls `aux` in code that can run"),
    ],
)
def test_main_hears_whether_it_calls_aux(outcome_of: OutcomeOf, main: str, message: str) -> None:
    told = give_feedback(outcome_of(aux=AUX, main=f"def sum_of_squares(xs):\n    {main}"))
    assert message in told["main"].text


def test_a_syntax_error_is_told_to_its_writer(outcome_of: OutcomeOf) -> None:
    told = give_feedback(outcome_of(aux="def aux(x):\n    return (x", main=MAIN))
    error = told["aux"].findings[0]
    assert (error.code, error.severity, error.line, error.column) == (
        "syntax-error",
        "error",
        2,
        12,
    )
    assert "line 2: your code does not parse: '(' was never closed" in told["aux"].text
    assert "the joint program does not parse, because of the code of: aux" in told["main"].text
    assert "`sum_of_squares` is defined" in told["main"].text


def test_without_ast_ruff_tells_of_syntax(outcome_of: OutcomeOf) -> None:
    told = give_feedback(
        outcome_of(aux=AUX, main="def sum_of_squares(xs):\n    return ((xs)"), tools=["ruff"]
    )
    assert codes(told["main"])[0][0] == "invalid-syntax"
    assert told["aux"].text == "Static analysis: no remark."


JOINS = """\
import ast
def tidied(artefacts, problem): return ast.unparse(ast.parse(artefacts["coder"]))
def broken(artefacts, problem): return "def sum_of_squares(xs):\\n    return (xs"
def own(artefacts, problem): return "x = 1"
"""
PLAN = "- it's simple: square, then add"


@pytest.mark.parametrize(
    ("join", "told_all"),
    [
        ("tidied", "- line 2: F821 Undefined name `aux`"),
        ("broken", "- the joint program does not parse: '(' was never closed"),
        ("own", "- the joint program does not define `sum_of_squares`"),
    ],
)
def test_where_a_join_hides_whose_line_is_whose_all_are_told_of_the_joint_program(
    outcome_of: OutcomeOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    join: str,
    told_all: str,
) -> None:
    (tmp_path / "joins.py").write_text(JOINS)
    monkeypatch.chdir(tmp_path)
    told = give_feedback(
        outcome_of(planner=PLAN, coder=f"# it is mine\n{MAIN}", join=f"joins.py:{join}")
    )
    for agent in ("planner", "coder"):
        assert told[agent].text == f"Static analysis of the joint program:\n{told_all}"
        assert told[agent].findings[0].line is None


def test_a_program_that_only_joins_to_something_that_parses_is_not_called_broken(
    outcome_of: OutcomeOf,
) -> None:
    halves = {"head": "def sum_of_squares(xs):\n    x = 0", "main": "    return sum(xs)"}
    told = give_feedback(outcome_of(**halves))
    assert "parse" not in told["head"].text + told["main"].text
    assert "`sum_of_squares` is defined" in told["main"].text


def test_matters_of_taste_are_left_out(outcome_of: OutcomeOf) -> None:
    main = f"def sum_of_squares(xs):\n    assert xs != 77\n    return aux(xs)  # {'x' * 200}"
    told = give_feedback(outcome_of(aux=AUX, main=main))
    assert {finding.source for finding in told["main"].findings} == {"ast"}


def test_suppression_comments_are_ignored(outcome_of: OutcomeOf) -> None:
    main = "# ruff: noqa\ndef sum_of_squares(xs):\n    return aux(xz)  # noqa"
    told = give_feedback(outcome_of(aux=AUX, main=main))
    assert ("F821", 3) in codes(told["main"])


def test_errors_come_first_and_the_rest_is_counted(outcome_of: OutcomeOf) -> None:
    body = "".join(f"    a{n} = 1\n" for n in range(20))
    told = give_feedback(
        outcome_of(aux=AUX, main=f"def sum_of_squares(xs):\n{body}    return xz"), limit=3
    )
    assert len(told["main"].findings) == 3
    assert told["main"].findings[0].code == "F821"
    assert told["main"].text.endswith("- and 20 more")


def test_any_team_and_any_function(outcome_of: OutcomeOf) -> None:
    artefacts = {"first": "def first(x):\n    return x", "second": MAIN.replace("aux", "first")}
    told = give_feedback(
        outcome_of(**artefacts, tester="# nothing to define"), functions={"tester": ""}
    )
    assert "`first` is defined" in told["first"].text
    assert "your code does not define `second`" in told["second"].text
    assert told["tester"].text == "Static analysis: no remark."
    told = give_feedback(outcome_of(**artefacts), functions={"first": "missing"})
    assert "does not define `missing`" in told["first"].text
    assert "`sum_of_squares` is defined" in told["second"].text


def test_mypy(outcome_of: OutcomeOf) -> None:
    main = "def sum_of_squares(xs: list[int]) -> str:\n    return sum(aux(x) for x in xs)"
    told = give_feedback(
        outcome_of(aux="def aux(x: int) -> int:\n    return x", main=main), tools=["mypy"]
    )
    assert codes(told["main"]) == [("return-value", 2)]
    assert told["aux"].text == "Static analysis: no remark."


def test_a_program_that_stops_a_tool_stops_no_other() -> None:
    async def go() -> list[list[Finding]]:
        batcher = Batcher(find_tool("mypy"))
        programs = ["x: int = ''", "break", "y: str = 1"]
        return await asyncio.gather(*map(batcher.check, programs))

    first, second, third = asyncio.run(go())
    assert [finding.code for finding in first + third] == ["assignment", "assignment"]
    assert "outside loop" in second[0].message


def test_tools_see_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-1")

    async def go() -> None:
        await Batcher(Tool("ruff", ("sh", "-c", "env >&2; exit 2"))).check("x = 1")

    with pytest.raises(FeedbackError, match="status 2") as caught:
        asyncio.run(go())
    assert "sk-secret-1" not in str(caught.value)


def test_closing_ends_what_runs() -> None:
    async def go() -> None:
        batcher = Batcher(Tool("ruff", ("sh", "-c", "exec sleep 30")))
        waiting = asyncio.create_task(batcher.check("x = 1"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await batcher.aclose()

    started = time.perf_counter()
    asyncio.run(go())
    assert time.perf_counter() - started < 5


@pytest.mark.skipif(shutil.which("ty") is None, reason="ty is not installed")
def test_ty(outcome_of: OutcomeOf) -> None:
    main = "def sum_of_squares(xs: list[int]) -> str:\n    return len(xs)"
    told = give_feedback(outcome_of(aux=AUX, main=main), tools=["ty"])
    assert [finding.line for finding in told["main"].findings] == [2]


def test_ty_output_is_understood() -> None:
    output = (
        "program_0.py:3:12: error[invalid-return-type] Return type does not match: got `int`\n"
        "Found 1 diagnostic\n"
    )
    [(file, finding)] = Tool("ty", ()).read(output)
    assert file == "program_0.py"
    assert (finding.code, finding.line, finding.column) == ("invalid-return-type", 3, 12)


def test_many_programs_share_few_processes() -> None:
    async def go() -> tuple[list[Any], float]:
        batcher = Batcher(find_tool("ruff"))
        started = time.perf_counter()
        found = await asyncio.gather(*(batcher.check(f"x = undefined_{n}\n") for n in range(200)))
        await batcher.aclose()
        return found, time.perf_counter() - started

    found, seconds = asyncio.run(go())
    assert [f[0].message for f in found] == [f"Undefined name `undefined_{n}`" for n in range(200)]
    assert seconds < 5


def test_one_source_serves_several_event_loops(outcome_of: OutcomeOf) -> None:
    source = Static(StaticFeedback())
    outcome = outcome_of(aux=AUX, main="def sum_of_squares(xs):\n    return xz")
    for _ in range(2):
        assert "F821" in asyncio.run(source.give_feedback(outcome))["main"].text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("sh", "-c", "echo broken >&2; exit 2"), "ruff ended with status 2: broken"),
        (("no-such-tool",), "ruff failed: FileNotFoundError"),
        (("sh", "-c", "echo '{'"), "ruff failed: JSONDecodeError"),
    ],
)
def test_a_tool_that_fails_is_a_typed_failure(command: tuple[str, ...], message: str) -> None:
    async def go() -> None:
        await Batcher(Tool("ruff", command)).check("x = 1")

    with pytest.raises(FeedbackError, match=message):
        asyncio.run(go())


def test_a_tool_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collab.feedback.tools.TOOL_SECONDS", 0.2)

    async def go() -> None:
        await Batcher(Tool("ruff", ("sh", "-c", "exec sleep 30"))).check("x = 1")

    with pytest.raises(FeedbackError, match=r"took longer than 0\.2 s"):
        asyncio.run(go())


def test_a_problem_without_prompt(outcome_of: OutcomeOf) -> None:
    problem = Problem(address="demo/1", public={"entry_point": "f"})
    told = give_feedback(outcome_of(problem=problem, main="def f(x):\n    return x"))
    assert told["main"].text == "Static analysis:\n- `f` is defined"


def test_programs_that_are_checked_together_do_not_see_each_other() -> None:
    """No program can name another, and none is told under which name it lay."""
    spies = [f"from program_{n} import Secret\nx: int = Secret()\n" for n in ("0", "1", "")]
    own = "class int:\n    pass\n\n\ndef f(x: int) -> None: ...\n\n\nf(3)\n"

    async def check() -> list[list[Finding]]:
        batcher = Batcher(find_tool("mypy"))
        programs = ["class Secret:\n    pass\n", *spies, own]
        try:
            return await asyncio.gather(*map(batcher.check, programs))
        finally:
            await batcher.aclose()

    hidden, *seen, clash = asyncio.run(check())
    assert hidden == []
    assert seen == [[], [], []]
    assert [finding.message for finding in clash] == [
        'Argument 1 to "f" has incompatible type "builtins.int"; expected "program.int"'
    ]
