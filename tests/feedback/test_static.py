"""Static analysis, with the real ruff and mypy."""

from pathlib import Path

import pytest
from support.static_findings import AUX, MAIN, OutcomeOf, codes, give_feedback


def test_sound_code_has_no_findings(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux=AUX, main=MAIN))
    assert feedback["aux"].text == "Static analysis:\n- `aux` is defined"
    assert feedback["main"].text == (
        "Static analysis:\n- `sum_of_squares` is defined\n"
        "- `sum_of_squares` calls `aux` and uses its value"
    )


def test_findings_use_the_line_numbers_of_each_agent(outcome_of: OutcomeOf) -> None:
    aux = "import os\n\n\ndef aux(x):\n    return y * x"
    main = "def sum_of_squares(xs):\n    unused = 1\n    return sum(map(aux, xz))"
    feedback = give_feedback(outcome_of(aux=aux, main=main))
    assert ("F821", 5) in codes(feedback["aux"])
    assert ("F401", 1) in codes(feedback["aux"])
    assert ("F841", 2) in codes(feedback["main"])
    assert ("F821", 3) in codes(feedback["main"])
    assert "line 3: F821 Undefined name `xz`" in feedback["main"].text
    assert all(finding.source in ("ast", "ruff") for finding in feedback["main"].findings)


def test_line_numbers_in_messages_refer_to_the_agents_code(outcome_of: OutcomeOf) -> None:
    main = "import math\nimport os\n\nimport os\n\ndef sum_of_squares(xs):\n    return aux(os)"
    feedback = give_feedback(outcome_of(aux=AUX, main=main))["main"].text
    assert "line 4: F811 Redefinition of unused `os` from line 2" in feedback
    assert "line 1: F811 Redefinition of unused `math` from what the prompt gives" in feedback
    feedback = give_feedback(outcome_of(aux=f"import os\n{AUX}", main=main))["main"].text
    assert "line 2: F811 Redefinition of unused `os` from line 1 of aux" in feedback


def test_last_line_is_its_own_without_a_line_feed(outcome_of: OutcomeOf) -> None:
    main = "def sum_of_squares(xs):\n    return sum(map(aux, xz))"
    feedback = give_feedback(outcome_of(join="text", aux=AUX, main=main))
    assert ("F821", 2) in codes(feedback["main"])


ENTRY = "def sum_of_squares(xs):\n    "


@pytest.mark.parametrize(
    ("aux", "main", "agent", "message"),
    [
        ("def other(x):\n    return x", MAIN, "aux", "your code does not define `aux`"),
        ("def other(x):\n    return x", MAIN, "main", "F821 Undefined name `aux`"),
        ("def aux(x):\n    print(x)", MAIN, "aux", "`aux` returns no value"),
        (AUX, f"{ENTRY}return sum(xs)", "main", "never calls `aux`"),
        (AUX, f"{ENTRY}aux(xs)\n    return 1", "main", "line 2: the value of `aux` is not used"),
        (
            AUX,
            f"{ENTRY}if False: aux(1)\n    return 1",
            "main",
            "never calls `aux` in code that can run",
        ),
    ],
)
def test_missing_and_unused_functions_are_reported(
    outcome_of: OutcomeOf, aux: str, main: str, agent: str, message: str
) -> None:
    assert message in give_feedback(outcome_of(aux=aux, main=main))[agent].text


def test_names_provided_by_the_prompt_are_not_undefined(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux="def aux(x):\n    return math.sqrt(x)", main=MAIN))
    assert "F821" not in str(feedback)


def test_syntax_error_is_reported_to_its_author(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux="def aux(x):\n    return (x", main=MAIN))
    error = feedback["aux"].findings[0]
    assert (error.code, error.severity, error.line, error.column) == (
        "syntax-error",
        "error",
        2,
        12,
    )
    assert "line 2: your code does not parse: '(' was never closed" in feedback["aux"].text
    assert "the joint program does not parse, because of the code of: aux" in feedback["main"].text
    assert "`sum_of_squares` is defined" in feedback["main"].text


def test_ruff_reports_syntax_errors_without_ast(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(
        outcome_of(aux=AUX, main="def sum_of_squares(xs):\n    return ((xs)"), tools=["ruff"]
    )
    assert codes(feedback["main"])[0][0] == "invalid-syntax"
    assert feedback["aux"].text == "Static analysis: no remark."


JOINS = """\
import ast
def tidied(artifacts, problem): return ast.unparse(ast.parse(artifacts["coder"]))
def broken(artifacts, problem): return "def sum_of_squares(xs):\\n    return (xs"
def own(artifacts, problem): return "x = 1"
"""
PLAN = "- it's simple: square, then add"


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("tidied", "- line 2: F821 Undefined name `aux`"),
        ("broken", "- the joint program does not parse: '(' was never closed"),
        ("own", "- the joint program does not define `sum_of_squares`"),
    ],
)
def test_findings_that_cannot_be_attributed_go_to_every_agent(
    outcome_of: OutcomeOf, here: Path, join: str, expected: str
) -> None:
    (here / "joins.py").write_text(JOINS)
    feedback = give_feedback(
        outcome_of(planner=PLAN, coder=f"# it is mine\n{MAIN}", join=f"joins.py:{join}")
    )
    for agent in ("planner", "coder"):
        assert feedback[agent].text == f"Static analysis of the joint program:\n{expected}"
        assert feedback[agent].findings[0].line is None


def test_code_that_parses_only_when_joined_is_not_called_broken(outcome_of: OutcomeOf) -> None:
    halves = {"head": "def sum_of_squares(xs):\n    x = 0", "main": "    return sum(xs)"}
    feedback = give_feedback(outcome_of(**halves))
    assert "parse" not in feedback["head"].text + feedback["main"].text
    assert "`sum_of_squares` is defined" in feedback["main"].text
